"""The interleaved timing loop, on a clock that only the timed calls move."""

from __future__ import annotations

import gc
import threading
import time
from itertools import groupby

import pytest

from mnserve.bench.timing import TimingPlan, interleave


class World:
    """A clock in nanoseconds and calls of known duration."""

    def __init__(self) -> None:
        self.now = 0
        self.log: list[str] = []
        self.collector_was_on = False

    def clock(self) -> int:
        return self.now

    def call(self, name: str, milliseconds: float):
        def run() -> None:
            self.now += int(milliseconds * 1e6)
            self.log.append(name)
            self.collector_was_on |= gc.isenabled()

        return run


def after_warm_up(log: list[str], counts: dict[str, int], rounds: int) -> list[str]:
    return log[-rounds * sum(counts.values()) :]


def test_rounds_alternate_their_order() -> None:
    world = World()
    plan = TimingPlan(seconds=0.4, rounds=4)
    slots = interleave([world.call("A", 10), world.call("B", 20)], plan, clock=world.clock)
    measured = after_warm_up(world.log, {"A": 10, "B": 5}, 4)
    # AB BA AB BA: equal neighbors run together where one round ends and the next begins.
    assert [(name, len([*calls])) for name, calls in groupby(measured)] == [
        ("A", 10), ("B", 10), ("A", 20), ("B", 10), ("A", 10),
    ]  # fmt: skip
    assert [len(one) for one in slots] == [4, 4]
    assert {latency for one in slots[0] for latency in one.latencies_ms} == {10.0}
    assert {latency for one in slots[1] for latency in one.latencies_ms} == {20.0}
    assert [one.wall_s for one in slots[1]] == pytest.approx([0.1] * 4)


def test_a_slot_has_at_least_one_call() -> None:
    world = World()
    slots = interleave([world.call("A", 5000)], TimingPlan(seconds=0.1, rounds=3), clock=world.clock)
    assert [len(one.latencies_ms) for one in slots[0]] == [1, 1, 1]


@pytest.mark.parametrize(("milliseconds", "calls"), [(1, 200), (10, 100), (50, 20), (500, 2), (5000, 1)])
def test_slow_calls_are_timed_for_longer_within_bounds(milliseconds: float, calls: int) -> None:
    """0.2 s, and up to five times as long for 100 calls."""
    world = World()
    plan = TimingPlan(seconds=0.2, rounds=1, least_calls=100, stretch=5.0)
    ((slot,),) = interleave([world.call("A", milliseconds)], plan, clock=world.clock)
    assert len(slot.latencies_ms) == calls


def test_callers_share_the_calls_that_there_should_be() -> None:
    plan = TimingPlan(seconds=0.01, rounds=1, concurrency=8, least_calls=100, stretch=1000.0)
    ((slot,),) = interleave([lambda: time.sleep(0.02)], plan)
    assert len(slot.latencies_ms) == 8 * 13


def test_slow_first_calls_do_not_shrink_the_slots() -> None:
    world = World()
    state = {"calls": 0}

    def cold_start() -> None:
        state["calls"] += 1
        world.now += int((150 if state["calls"] == 1 else 1) * 1e6)

    slots = interleave([cold_start], TimingPlan(seconds=0.1, rounds=1), clock=world.clock)
    assert len(slots[0][0].latencies_ms) == 100


def test_progress_counts_rounds() -> None:
    world = World()
    done: list[int] = []
    interleave([world.call("A", 100)], TimingPlan(seconds=0.1, rounds=3), on_round=done.append, clock=world.clock)
    assert done == [1, 2, 3]


def test_garbage_collection_waits_and_comes_back() -> None:
    world = World()
    assert gc.isenabled()
    interleave([world.call("A", 100)], TimingPlan(seconds=0.1, rounds=1), clock=world.clock)
    assert not world.collector_was_on
    assert gc.isenabled()


def test_garbage_collection_comes_back_after_an_error() -> None:
    def broken() -> None:
        raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        interleave([broken], TimingPlan())
    assert gc.isenabled()


def test_callers_really_call_at_the_same_time() -> None:
    together = threading.Barrier(3, timeout=20)  # breaks unless three calls are inside at once
    slots = interleave([together.wait], TimingPlan(seconds=0.01, rounds=2, concurrency=3))
    assert all(len(one.latencies_ms) % 3 == 0 for one in slots[0])


@pytest.mark.parametrize("field", ["seconds", "rounds", "concurrency"])
def test_a_plan_of_nothing_is_refused(field: str) -> None:
    with pytest.raises(ValueError, match=f"{field} is 0"):
        TimingPlan(**{field: 0})

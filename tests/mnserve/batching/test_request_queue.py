"""The line of waiting requests, without an engine."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mnserve.batching.priority_queue import Earliest, PriorityQueue
from mnserve.batching.request_queue import RequestQueue, WaitingRequest
from mnserve.execution.batch import InferenceWork


def work(*values: float, width: int = 2) -> InferenceWork:
    """One row for each value."""
    return InferenceWork(
        feeds={"x": np.repeat(np.array(values, dtype=np.float32)[:, None], width, axis=1)},
        rows=len(values),
        outputs=("y",),
    )


async def test_strings_count_with_what_they_hold() -> None:
    text = np.array([[b"x" * 1000], [b""]], dtype=object)
    assert 1000 < InferenceWork(feeds={"x": text}, rows=2, outputs=()).nbytes < 1200


async def test_requests_that_are_answered_already_are_not_run() -> None:
    """A deadline can pass in the very turn of the loop in which the batch is put together."""
    line = RequestQueue(4)
    futures = [asyncio.get_running_loop().create_future() for _ in range(2)]
    for future in futures:
        line.add(work(1), future)
    futures[0].set_result(None)
    assert [request.future for request in line.take_batch()] == futures[1:]
    assert len(line) == 0


class Line:
    """A line, and what was put into it."""

    def __init__(self, max_batch_size: int = 4, preferred: tuple[int, ...] = ()) -> None:
        self.line = RequestQueue(max_batch_size, preferred)
        self.names: dict[int, str] = {}

    def add(self, name: str, *, level: int = 0, rows: int = 1, width: int = 2) -> WaitingRequest:
        future = asyncio.get_running_loop().create_future()
        request = self.line.add(work(*range(rows), width=width), future, level=level)
        self.names[request.number] = name
        return request

    def take(self, *, as_many_as_fit: bool = False) -> str:
        batch = self.line.take_batch(as_many_as_fit=as_many_as_fit)
        return "".join(self.names[request.number] for request in batch)


async def test_a_higher_priority_goes_first_and_each_level_keeps_its_order() -> None:
    line = Line(max_batch_size=2)
    for name, level in (("a", 3), ("b", 2), ("c", 1), ("d", 2), ("e", 1), ("f", 3)):
        line.add(name, level=level)
    assert [line.line.count(level) for level in (0, 1, 2, 3)] == [0, 2, 2, 2]
    assert [line.take() for _ in range(3)] == ["ce", "bd", "af"]
    assert not line.line


async def test_lower_priorities_fill_up_a_batch_of_their_own_shape() -> None:
    line = Line()
    line.add("w", level=2, width=5)
    for name, level in (("a", 3), ("b", 1), ("c", 2)):
        line.add(name, level=level)
    assert [line.take(), line.take()] == ["bca", "w"]


async def test_a_postponed_request_goes_behind_those_of_its_level_and_before_lower_ones() -> None:
    line = Line(max_batch_size=1)
    late = line.add("l", level=1)
    line.add("z", level=2)
    line.add("a", level=1)
    line.line.postpone(late)
    line.add("b", level=1)
    assert line.line.count(1) == 3
    assert [line.take() for _ in range(4)] == ["a", "b", "l", "z"]


async def test_a_request_that_is_answered_already_does_not_choose_who_runs() -> None:
    line = Line()
    gone = line.add("x", level=1, width=5)
    line.add("a", level=3, width=5)
    line.add("b", level=2)
    gone.future.cancel()
    assert [line.take(), line.take()] == ["b", "a"]


async def test_a_batch_takes_the_largest_preferred_size_that_it_makes_up() -> None:
    line = Line(max_batch_size=8, preferred=(2, 4))
    for name in "abcde":
        line.add(name)
    assert [line.take(), line.take()] == ["abcd", "e"]
    for name in "abcde":
        line.add(name)
    assert line.take(as_many_as_fit=True) == "abcde"
    line.add("a", rows=3)
    line.add("b", rows=3)
    assert line.take() == "ab"  # 3 and 6: no preferred size


async def test_a_bucket_is_satisfied_by_the_smallest_preferred_size() -> None:
    line = Line(max_batch_size=8, preferred=(2, 4))
    first = line.add("a")
    assert not line.line.has_full_batch
    line.add("b")
    assert line.line.has_full_batch
    line.line.remove(first)
    assert not line.line.has_full_batch


async def test_times_of_requests_that_left_do_not_count() -> None:
    line, loop = RequestQueue(4), asyncio.get_running_loop()
    first = line.add(work(1), loop.create_future(), deadline=1.0, delay_until=2.0)
    line.add(work(1), loop.create_future(), deadline=3.0, delay_until=4.0)
    assert (line.first_deadline, line.delay_until) == (1.0, 2.0)
    line.remove(first)
    assert (line.first_deadline, line.delay_until) == (3.0, 4.0)
    line.take_all()
    assert (line.first_deadline, line.delay_until) == (math.inf, math.inf)


def test_what_is_forgotten_takes_no_memory() -> None:
    """A line that is never empty, and whose first time nobody asks for, as under a load that never ends."""
    present = {0: "stays"}
    times = Earliest(present)
    times.add(1e9, 0)
    line: PriorityQueue[str] = PriorityQueue()
    line.append((1, False), 0, "stays")
    for number in range(1, 1000):
        present[number] = "goes"
        times.add(float(number), number)
        del present[number]
        line.append((2, False), number, "goes")
        line.remove((2, False), number)
    assert len(times._heap) < 50
    assert len(line._heap) < 50
    assert times.first() == 1e9
    assert line.first() == "stays"


@dataclass
class Plain:
    """What a line has to do, the slow way."""

    max_batch_size: int
    preferred: frozenset[int]
    waiting: list[WaitingRequest] = field(default_factory=list)

    def ordered(self) -> list[WaitingRequest]:
        return sorted(self.waiting, key=lambda item: item.rank)  # stable

    def postpone(self, item: WaitingRequest) -> None:
        self.waiting.remove(item)
        self.waiting.append(item)

    def batch(self, as_many_as_fit: bool) -> list[WaitingRequest]:
        ordered = self.ordered()
        same = [item for item in ordered if item.bucket == ordered[0].bucket]
        totals = np.cumsum([item.work.rows for item in same])
        fitting = max(1, int((totals <= self.max_batch_size).sum()))
        liked = [count for count in range(1, fitting + 1) if int(totals[count - 1]) in self.preferred]
        return same[: max(liked) if liked and not as_many_as_fit else fitting]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 3), st.integers(1, 2), st.integers(1, 3)),
        st.tuples(st.just("leave"), st.integers(0, 30)),
        st.tuples(st.just("late"), st.integers(0, 30)),
        st.tuples(st.just("take"), st.booleans()),
    ),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(steps=STEPS, preferred=st.sampled_from([frozenset[int](), frozenset({2}), frozenset({2, 4})]))
def test_a_line_does_what_a_sorted_list_would(steps: list[tuple[int, ...]], preferred: frozenset[int]) -> None:
    async def play() -> None:
        line, plain = RequestQueue(4, tuple(preferred)), Plain(4, preferred)
        for kind, *values in steps:
            if kind == "add":
                level, width, rows = values
                future = asyncio.get_running_loop().create_future()
                plain.waiting.append(line.add(work(*range(rows), width=width), future, level=level))
            elif kind == "take" and plain.waiting:
                expected = plain.batch(bool(values[0]))
                assert line.take_batch(as_many_as_fit=bool(values[0])) == expected
                plain.waiting = [item for item in plain.waiting if item not in expected]
            elif plain.waiting and kind in ("leave", "late"):
                item = plain.waiting[values[0] % len(plain.waiting)]
                if kind == "late":
                    line.postpone(item)
                    plain.postpone(item)
                else:
                    line.remove(item)
                    plain.waiting.remove(item)
            assert len(line) == len(plain.waiting)
            assert line.rows == sum(item.work.rows for item in plain.waiting)
            for level in (1, 2, 3):
                assert line.count(level) == sum(item.rank[0] == level for item in plain.waiting)
            if plain.waiting:
                assert line.oldest() is min(plain.waiting, key=lambda item: item.number)
        rows: dict[object, int] = {}
        for item in plain.waiting:
            rows[item.bucket] = rows.get(item.bucket, 0) + item.work.rows
        assert line.has_full_batch == any(total >= min(preferred, default=4) for total in rows.values())

    asyncio.run(play())

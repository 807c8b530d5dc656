"""The queue of waiting requests, without an engine."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mnserve.batching.options import BatcherOptions
from mnserve.batching.priority_queue import Earliest, PriorityQueue
from mnserve.batching.request_queue import RequestQueue
from mnserve.codec.decoding import InferenceWork
from mnserve.execution.request import WaitingRequest


def work(*values: float, width: int = 2) -> InferenceWork:
    """One row for each value."""
    return InferenceWork(
        feeds={"x": np.repeat(np.array(values, dtype=np.float32)[:, None], width, axis=1)},
        rows=len(values),
        outputs=("y",),
    )


def make_queue(max_batch_size: int = 4, preferred: tuple[int, ...] = ()) -> RequestQueue:
    options = BatcherOptions(max_batch_size=max_batch_size, max_queue_rows=1000, preferred_sizes=preferred)
    return RequestQueue(options, name="m")


async def test_strings_count_with_their_contents() -> None:
    text = np.array([[b"x" * 1000], [b""]], dtype=object)
    assert 1000 < InferenceWork(feeds={"x": text}, rows=2, outputs=()).nbytes < 1200


async def test_requests_that_are_answered_already_are_not_run() -> None:
    """A deadline can pass in the very turn of the loop in which the batch forms."""
    queue = make_queue()
    futures = [asyncio.get_running_loop().create_future() for _ in range(2)]
    for future in futures:
        queue.add(work(1), future)
    futures[0].set_result(None)
    assert [request.reply for request in queue.take_batch()] == futures[1:]
    assert len(queue) == 0


class NamedQueue:
    """A queue whose requests have names."""

    def __init__(self, max_batch_size: int = 4, preferred: tuple[int, ...] = ()) -> None:
        self.queue = make_queue(max_batch_size, preferred)
        self.names: dict[int, str] = {}

    def add(self, name: str, *, level: int = 0, rows: int = 1, width: int = 2) -> WaitingRequest:
        future = asyncio.get_running_loop().create_future()
        request = self.queue.add(work(*range(rows), width=width), future, level=level)
        self.names[request.number] = name
        return request

    def take(self, *, as_many_as_fit: bool = False) -> str:
        batch = self.queue.take_batch(as_many_as_fit=as_many_as_fit)
        return "".join(self.names[request.number] for request in batch)


async def test_a_higher_priority_goes_first_and_each_level_keeps_its_order() -> None:
    named = NamedQueue(max_batch_size=2)
    for name, level in (("a", 3), ("b", 2), ("c", 1), ("d", 2), ("e", 1), ("f", 3)):
        named.add(name, level=level)
    assert [named.queue.count(level) for level in (0, 1, 2, 3)] == [0, 2, 2, 2]
    assert [named.take() for _ in range(3)] == ["ce", "bd", "af"]
    assert not named.queue


async def test_lower_priorities_fill_up_a_batch_of_their_own_shape() -> None:
    named = NamedQueue()
    named.add("w", level=2, width=5)
    for name, level in (("a", 3), ("b", 1), ("c", 2)):
        named.add(name, level=level)
    assert [named.take(), named.take()] == ["bca", "w"]


async def test_a_postponed_request_goes_behind_its_level_and_before_lower_ones() -> None:
    named = NamedQueue(max_batch_size=1)
    late = named.add("l", level=1)
    named.add("z", level=2)
    named.add("a", level=1)
    named.queue.postpone(late)
    named.add("b", level=1)
    assert named.queue.count(1) == 3
    assert [named.take() for _ in range(4)] == ["a", "b", "l", "z"]


async def test_a_request_that_is_answered_already_does_not_choose_the_bucket() -> None:
    named = NamedQueue()
    gone = named.add("x", level=1, width=5)
    named.add("a", level=3, width=5)
    named.add("b", level=2)
    gone.reply.cancel()  # type: ignore[attr-defined]
    assert [named.take(), named.take()] == ["b", "a"]


async def test_a_batch_takes_the_largest_preferred_size_that_it_makes_up() -> None:
    named = NamedQueue(max_batch_size=8, preferred=(2, 4))
    for name in "abcde":
        named.add(name)
    assert [named.take(), named.take()] == ["abcd", "e"]
    for name in "abcde":
        named.add(name)
    assert named.take(as_many_as_fit=True) == "abcde"
    named.add("a", rows=3)
    named.add("b", rows=3)
    assert named.take() == "ab"  # 3 and 6: no preferred size


async def test_a_bucket_is_full_at_the_smallest_preferred_size() -> None:
    named = NamedQueue(max_batch_size=8, preferred=(2, 4))
    first = named.add("a")
    assert not named.queue.has_full_batch
    named.add("b")
    assert named.queue.has_full_batch
    named.queue.remove(first)
    assert not named.queue.has_full_batch


async def test_times_of_requests_that_left_are_ignored() -> None:
    queue, loop = make_queue(), asyncio.get_running_loop()
    first = queue.add(work(1), loop.create_future(), deadline=1.0, delay_until=2.0)
    queue.add(work(1), loop.create_future(), deadline=3.0, delay_until=4.0)
    assert (queue.first_deadline, queue.delay_until) == (1.0, 2.0)
    queue.remove(first)
    assert (queue.first_deadline, queue.delay_until) == (3.0, 4.0)
    queue.take_all()
    assert (queue.first_deadline, queue.delay_until) == (math.inf, math.inf)


def test_forgotten_entries_take_no_memory() -> None:
    """A queue that is never empty, and whose first time is never asked for, as under a load that never ends."""
    present = {0: "stays"}
    times = Earliest(present)
    times.add(1e9, 0)
    items: PriorityQueue[str] = PriorityQueue()
    items.append((1, False), 0, "stays")
    for number in range(1, 1000):
        present[number] = "goes"
        times.add(float(number), number)
        del present[number]
        items.append((2, False), number, "goes")
        items.remove((2, False), number)
    assert len(times._heap) < 50
    assert len(items._heap) < 50
    assert times.first() == 1e9
    assert items.first() == "stays"


@dataclass
class SortedList:
    """The rules of the queue on a sorted list."""

    max_batch_size: int
    preferred: frozenset[int]
    waiting: list[WaitingRequest] = field(default_factory=list)

    def ordered(self) -> list[WaitingRequest]:
        return sorted(self.waiting, key=lambda request: request.rank)  # stable

    def postpone(self, request: WaitingRequest) -> None:
        self.waiting.remove(request)
        self.waiting.append(request)

    def batch(self, as_many_as_fit: bool) -> list[WaitingRequest]:
        ordered = self.ordered()
        same = [request for request in ordered if request.bucket == ordered[0].bucket]
        totals = np.cumsum([request.work.rows for request in same])
        fitting = max(1, int((totals <= self.max_batch_size).sum()))
        preferred = [count for count in range(1, fitting + 1) if int(totals[count - 1]) in self.preferred]
        return same[: max(preferred) if preferred and not as_many_as_fit else fitting]


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
def test_a_queue_does_what_a_sorted_list_would(steps: list[tuple[int, ...]], preferred: frozenset[int]) -> None:
    async def play() -> None:
        queue, plain = make_queue(4, tuple(preferred)), SortedList(4, preferred)
        for kind, *values in steps:
            if kind == "add":
                level, width, rows = values
                future = asyncio.get_running_loop().create_future()
                plain.waiting.append(queue.add(work(*range(rows), width=width), future, level=level))
            elif kind == "take" and plain.waiting:
                expected = plain.batch(bool(values[0]))
                assert queue.take_batch(as_many_as_fit=bool(values[0])) == expected
                plain.waiting = [request for request in plain.waiting if request not in expected]
            elif plain.waiting and kind in ("leave", "late"):
                request = plain.waiting[values[0] % len(plain.waiting)]
                if kind == "late":
                    queue.postpone(request)
                    plain.postpone(request)
                else:
                    queue.remove(request)
                    plain.waiting.remove(request)
            assert len(queue) == len(plain.waiting)
            assert queue.rows == sum(request.work.rows for request in plain.waiting)
            for level in (1, 2, 3):
                assert queue.count(level) == sum(request.rank[0] == level for request in plain.waiting)
            if plain.waiting:
                assert queue.oldest() is min(plain.waiting, key=lambda request: request.number)
        rows: dict[object, int] = {}
        for request in plain.waiting:
            rows[request.bucket] = rows.get(request.bucket, 0) + request.work.rows
        assert queue.has_full_batch == any(total >= min(preferred, default=4) for total in rows.values())

    asyncio.run(play())

"""Requests of streams wait for room in the queue, in their order, instead of being refused."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import pytest

from mnserve.batching.batcher import Batcher
from mnserve.batching.options import BatcherOptions
from mnserve.batching.queue_policy import QueuePolicy, QueueRules
from mnserve.batching.request_limits import RequestLimits
from mnserve.codec.decoding import InferenceWork
from mnserve.engines.fake import FakeEngine
from mnserve.errors import DeadlineExceededError, QueueFullError, QueueTimeoutError, StoppingError
from mnserve.execution.engine_thread import EngineThread
from mnserve.execution.instances import Instance
from mnserve.execution.results import InferenceResult


def work(value: float, rows: int = 4) -> InferenceWork:
    return InferenceWork(feeds={"x": np.full((rows, 2), value, np.float32)}, rows=rows, outputs=("y",))


async def until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


class Full:
    """A batcher whose engine is held by a gate, and whose queue has no room for one row more."""

    def __init__(self, gate: threading.Event, **fields: Any) -> None:
        self.gate = gate
        self.engine = FakeEngine(gate=gate)
        options = BatcherOptions(**{"max_batch_size": 4, "max_queue_rows": 4, **fields})
        instance = Instance(engine=self.engine, thread=EngineThread("m"))
        self.batcher = Batcher([instance], name="m", options=options)
        self.admitted: list[float] = []
        self.tasks: list[asyncio.Task[InferenceResult]] = []

    async def fill(self) -> None:
        self.batcher.start()
        self.tasks.append(asyncio.create_task(self.batcher.infer(work(100))))
        await until(self.engine.started.is_set)
        self.tasks.append(asyncio.create_task(self.batcher.infer(work(101))))
        await until(lambda: self.batcher.waiting_rows == 4)

    def stream(self, value: float, **limits: Any) -> asyncio.Task[InferenceResult]:
        def note(nbytes: int) -> None:
            assert nbytes == 32
            self.admitted.append(value)

        self.tasks.append(asyncio.create_task(self.batcher.infer(work(value), RequestLimits(**limits), note)))
        return self.tasks[-1]


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
async def full(gate: threading.Event) -> AsyncIterator[Full]:
    made = Full(gate)
    await made.fill()
    yield made
    gate.set()
    await made.batcher.drain()
    await asyncio.gather(*made.tasks, return_exceptions=True)
    assert not made.batcher._line.turns


async def some_turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_requests_of_streams_wait_in_their_order_while_others_are_refused(full: Full) -> None:
    tasks = [full.stream(value) for value in range(6)]
    await some_turns()
    assert full.admitted == []
    with pytest.raises(QueueFullError):
        await full.batcher.infer(work(9))
    full.gate.set()
    answers = await asyncio.gather(*tasks)
    assert [float(answer.arrays[0][0, 0]) for answer in answers] == [0, 2, 4, 6, 8, 10]
    assert full.admitted == [0, 1, 2, 3, 4, 5]


async def test_a_waiting_request_that_leaves_makes_room_for_those_behind_it(full: Full) -> None:
    first, second = full.stream(1), full.stream(2)
    await some_turns()
    first.cancel()
    await some_turns()
    full.gate.set()
    assert float((await second).arrays[0][0, 0]) == 4
    assert full.admitted == [2]


async def test_a_caller_that_leaves_the_queue_makes_room(gate: threading.Event) -> None:
    full = Full(gate, max_queue_rows=8)
    await full.fill()
    leaving = asyncio.create_task(full.batcher.infer(work(5, rows=3)))
    await until(lambda: full.batcher.waiting_rows == 7)
    waiting = full.stream(1)
    await some_turns()
    assert full.admitted == []
    leaving.cancel()
    await until(lambda: full.admitted == [1])
    gate.set()
    assert float((await waiting).arrays[0][0, 0]) == 2
    await full.batcher.drain()
    await asyncio.gather(*full.tasks, leaving, return_exceptions=True)


async def test_a_deadline_counts_while_a_request_waits_for_room(full: Full) -> None:
    deadline = asyncio.get_running_loop().time() + 0.05
    with pytest.raises(DeadlineExceededError, match="the deadline passed before the answer was there"):
        await full.stream(1, deadline=deadline, max_wait=20.0)


async def test_the_time_in_the_queue_counts_while_a_request_waits_for_room(full: Full) -> None:
    with pytest.raises(QueueTimeoutError, match="Request timeout expired"):
        await full.stream(1, max_wait=0.05)


async def test_what_was_read_is_answered_by_a_batcher_that_drains(full: Full) -> None:
    before = full.stream(1)
    left = full.stream(2)
    await some_turns()
    draining = asyncio.create_task(full.batcher.drain())
    await some_turns()
    with pytest.raises(StoppingError):
        await full.stream(3)
    left.cancel()
    full.gate.set()
    assert float((await before).arrays[0][0, 0]) == 2
    async with asyncio.timeout(20):
        await draining


async def test_a_drain_that_is_given_up_ends_those_that_wait(full: Full) -> None:
    waiting = [full.stream(value) for value in range(3)]
    await some_turns()
    full.batcher.abort()
    for error in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(error, StoppingError)


async def test_each_priority_level_has_a_line_of_its_own(gate: threading.Event) -> None:
    rules = QueueRules(levels=2, default_level=2, policies={2: QueuePolicy(max_requests=1)})
    full = Full(gate, max_queue_rows=64, queue=rules)
    await full.fill()
    full.stream(1, level=2)
    low = full.stream(2, level=2)
    high = full.stream(3, level=1)
    await until(lambda: 3 in full.admitted)
    assert 2 not in full.admitted
    gate.set()
    await asyncio.gather(low, high)
    await full.batcher.drain()
    await asyncio.gather(*full.tasks, return_exceptions=True)

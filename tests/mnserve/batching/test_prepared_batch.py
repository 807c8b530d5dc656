"""A full batch is prepared while the engine is busy, and no caller notices."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from mnserve.batching.batcher import Batcher
from mnserve.batching.options import BatcherOptions
from mnserve.batching.queue_policy import QueuePolicy, QueueRules
from mnserve.batching.request_limits import RequestLimits
from mnserve.batching.request_queue import RequestQueue
from mnserve.codec.decoding import InferenceWork
from mnserve.engines.fake import FakeEngine
from mnserve.errors import DeadlineExceededError, QueueFullError
from mnserve.execution.engine_thread import EngineThread
from mnserve.execution.instances import Instance
from mnserve.execution.results import InferenceResult


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def work(value: float, rows: int = 1) -> InferenceWork:
    return InferenceWork(feeds={"x": np.full((rows, 2), value, np.float32)}, rows=rows, outputs=("y",))


class Unjoinable(np.ndarray):  # type: ignore[type-arg]
    """An array that cannot be joined with others."""

    def __array_function__(self, *_: Any) -> Any:
        raise MemoryError("no memory")


def unjoinable() -> InferenceWork:
    return InferenceWork(feeds={"x": np.zeros((1, 2), np.float32).view(Unjoinable)}, rows=1, outputs=("y",))


class Busy:
    """A batcher whose only engine is held by a gate, with one request in it."""

    def __init__(self, gate: threading.Event, **fields: Any) -> None:
        self.engine = FakeEngine(gate=gate)
        options = BatcherOptions(**{"max_batch_size": 4, "max_queue_rows": 8, **fields})
        self.rules = options.queue
        self.queue = RequestQueue(options, name="m")
        instances = [Instance(engine=self.engine, thread=EngineThread("m"))]
        self.batcher = Batcher(instances, name="m", options=options, queue=self.queue)
        self.batcher.start()

    async def begin(self) -> asyncio.Task[InferenceResult]:
        task = self.ask(0)
        await until(self.engine.started.is_set)
        return task

    def ask(self, value: float, rows: int = 1, **limits: Any) -> asyncio.Task[InferenceResult]:
        return asyncio.ensure_future(self.batcher.infer(work(value, rows), RequestLimits.under(self.rules, **limits)))

    @property
    def prepared(self) -> int:
        """Requests that have left the queue and still wait."""
        return self.batcher.waiting_requests - len(self.queue)

    def batches(self) -> list[list[float]]:
        return [call["x"][:, 0].tolist() for call in self.engine.calls]


async def until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


async def test_one_full_batch_is_prepared_and_no_second(gate: threading.Event) -> None:
    busy = Busy(gate, max_queue_rows=64)
    tasks = [await busy.begin()] + [busy.ask(value) for value in range(1, 11)]
    await until(lambda: busy.prepared == 4)
    await asyncio.sleep(0.01)
    assert busy.batcher.waiting_requests == 10
    assert busy.batcher.waiting_rows == 10
    assert busy.prepared == 4
    gate.set()
    answers = await asyncio.gather(*tasks)
    assert [answer.arrays[0][0, 0] for answer in answers] == [2.0 * value for value in range(11)]
    assert busy.batches() == [[0], [1, 2, 3, 4], [5, 6, 7, 8], [9, 10]]
    await busy.batcher.drain()


async def test_less_than_a_full_batch_stays_in_the_queue(gate: threading.Event) -> None:
    busy = Busy(gate)
    tasks = [await busy.begin(), busy.ask(1), busy.ask(2, rows=2)]
    await asyncio.sleep(0.01)
    assert busy.prepared == 0
    tasks.append(busy.ask(3))
    await until(lambda: busy.prepared == 3)
    gate.set()
    await asyncio.gather(*tasks)
    assert busy.batches() == [[0], [1, 2, 2, 3]]
    await busy.batcher.drain()


async def test_prepared_rows_count_for_the_limit_of_the_queue(gate: threading.Event) -> None:
    busy = Busy(gate)
    tasks = [await busy.begin()] + [busy.ask(value) for value in range(8)]
    await until(lambda: busy.prepared == 4)
    with pytest.raises(QueueFullError, match="8 rows are waiting, and 1 more would exceed the limit of 8"):
        await busy.ask(9)
    gate.set()
    await asyncio.gather(*tasks)
    await busy.batcher.drain()


async def test_prepared_bytes_count_for_the_limit_of_the_queue(gate: threading.Event) -> None:
    busy = Busy(gate, max_queue_bytes=32)
    tasks = [await busy.begin(), busy.ask(1, rows=4)]
    await until(lambda: busy.prepared == 1)
    with pytest.raises(QueueFullError, match="32 bytes are waiting"):
        await busy.ask(9)
    gate.set()
    await asyncio.gather(*tasks)
    await busy.batcher.drain()


@pytest.mark.parametrize(
    "rules",
    [
        QueueRules(levels=2, default_level=2),
        QueueRules(default_policy=QueuePolicy(timeout=60)),
        QueueRules(default_policy=QueuePolicy(max_requests=9)),
    ],
    ids=["priorities", "timeout", "requests"],
)
async def test_nothing_is_prepared_where_requests_may_overtake_or_be_refused(
    gate: threading.Event, rules: QueueRules
) -> None:
    busy = Busy(gate, queue=rules)
    tasks = [await busy.begin()] + [busy.ask(value) for value in range(5)]
    await until(lambda: busy.batcher.waiting_requests == 5)
    await asyncio.sleep(0.01)
    assert busy.prepared == 0
    if rules.levels:
        tasks.append(busy.ask(7, level=1))
    gate.set()
    await asyncio.gather(*tasks)
    assert busy.batches()[1][0] == (7 if rules.levels else 0)
    await busy.batcher.drain()


async def test_deadlines_fire_on_time_and_a_batch_without_waiters_is_not_run(gate: threading.Event) -> None:
    busy = Busy(gate)
    first = await busy.begin()
    until_then = asyncio.get_running_loop().time() + 0.05
    late = [busy.ask(value, deadline=until_then) for value in range(3)]
    gone = busy.ask(3)
    await until(lambda: busy.prepared == 4)
    gone.cancel()
    errors = await asyncio.gather(*late, return_exceptions=True)  # the engine is busy all the while
    assert all(isinstance(error, DeadlineExceededError) for error in errors)
    gate.set()
    await first
    assert (await busy.ask(5)).arrays[0].tolist() == [[10, 10]]
    assert busy.batches() == [[0], [5]]
    await busy.batcher.drain()


async def test_a_drain_finishes_a_prepared_batch(gate: threading.Event) -> None:
    busy = Busy(gate)
    tasks = [await busy.begin()] + [busy.ask(value) for value in range(1, 6)]
    await until(lambda: busy.prepared == 4)
    drain = asyncio.ensure_future(busy.batcher.drain())
    await asyncio.sleep(0.01)
    assert not drain.done()
    gate.set()
    answers = await asyncio.gather(*tasks)
    assert [answer.arrays[0][0, 0] for answer in answers] == [2.0 * value for value in range(6)]
    await drain
    assert busy.batcher.idle


async def test_memory_that_is_used_again_spoils_no_answer_on_its_way(gate: threading.Event) -> None:
    """The engine hands out its own input, as a graph may whose output is an input."""
    busy = Busy(gate, max_queue_rows=64)
    busy.engine._function = lambda feeds: {"y": feeds["x"]}
    wide = 40_000

    def ask(value: float) -> asyncio.Task[InferenceResult]:
        wide_work = InferenceWork(feeds={"x": np.full((1, wide), value, np.float32)}, rows=1, outputs=("y",))
        return asyncio.ensure_future(busy.batcher.infer(wide_work))

    tasks = [ask(value) for value in range(33)]
    gate.set()
    answers = await asyncio.gather(*tasks)
    assert [set(answer.arrays[0].ravel().tolist()) for answer in answers] == [{float(value)} for value in range(33)]
    await busy.batcher.drain()


async def test_rows_that_cannot_be_joined_run_singly(gate: threading.Event) -> None:
    busy = Busy(gate)
    first = await busy.begin()
    tasks = [asyncio.ensure_future(busy.batcher.infer(unjoinable())) for _ in range(4)]
    await until(lambda: busy.prepared == 4)
    gate.set()
    await first
    assert [answer.arrays[0].tolist() for answer in await asyncio.gather(*tasks)] == [[[0, 0]]] * 4
    assert (await busy.ask(5)).arrays[0].tolist() == [[10, 10]]
    assert busy.batches() == [[0], [0], [0], [0], [0], [5]]
    await busy.batcher.drain()

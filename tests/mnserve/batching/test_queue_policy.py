"""Priorities, limits of the queue and times in it, on an engine that a gate holds."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
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
from mnserve.errors import DeadlineExceededError, QueueFullError, QueueTimeoutError
from mnserve.execution.engine_thread import EngineThread
from mnserve.execution.instances import Instance
from mnserve.execution.results import InferenceResult


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def work(*values: float, width: int = 2) -> InferenceWork:
    """One row for each value."""
    return InferenceWork(
        feeds={"x": np.repeat(np.array(values, dtype=np.float32)[:, None], width, axis=1)},
        rows=len(values),
        outputs=("y",),
    )


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


class HeldBatcher:
    """A batcher whose engine is held by a gate.

    Args:
        engine: The engine.
        options: Limits.
    """

    def __init__(self, engine: FakeEngine, options: BatcherOptions) -> None:
        self.engine = engine
        self.rules = options.queue
        self.queue = RequestQueue(options, name="m")
        instances = [Instance(engine=engine, thread=EngineThread("m"))]
        self.batcher = Batcher(instances, name="m", options=options, queue=self.queue)
        self.batcher.start()
        self.held: asyncio.Task[InferenceResult] | None = None

    async def submit(self, *values: float, width: int = 2, **limits: Any) -> asyncio.Task[InferenceResult]:
        """Sends a request; when this returns it waits, or has failed."""
        before = self.batcher.waiting_requests
        task = asyncio.ensure_future(self.infer(*values, width=width, **limits))
        await until(lambda: task.done() or self.batcher.waiting_requests > before)
        return task

    async def infer(self, *values: float, width: int = 2, **limits: Any) -> InferenceResult:
        return await self.batcher.infer(work(*values, width=width), RequestLimits.under(self.rules, **limits))

    def ran(self) -> list[list[float]]:
        """Lists the batches, without the held one."""
        return [call["x"][:, 0].tolist() for call in self.engine.calls[1:]]


@asynccontextmanager
async def holding(
    gate: threading.Event, max_batch_size: int = 1, default: QueuePolicy | None = None, **rules: Any
) -> AsyncIterator[HeldBatcher]:
    """Holds the engine with a request of value 100 inside it."""
    engine = FakeEngine(gate=gate)
    options = BatcherOptions(
        max_batch_size=max_batch_size,
        max_queue_rows=64,
        queue=QueueRules(default_policy=default or QueuePolicy(), **rules),
    )
    run = HeldBatcher(engine, options)
    run.held = asyncio.ensure_future(run.infer(100))
    await until(engine.started.is_set)
    yield run
    gate.set()
    async with asyncio.timeout(20):
        await run.batcher.drain()


async def test_a_higher_priority_is_taken_first_and_equals_in_order(gate: threading.Event) -> None:
    async with holding(gate, levels=3, default_level=2) as run:
        for value, level in ((1, 3), (2, None), (3, 1), (4, 2), (5, 1), (6, 3)):
            await run.submit(value, level=level)
    assert run.ran() == [[3], [5], [2], [4], [1], [6]]


async def test_lower_priorities_fill_up_batches_of_higher_ones(gate: threading.Event) -> None:
    async with holding(gate, 2, levels=2, default_level=2) as run:
        for value, level, width in ((1, 2, 2), (2, 2, 2), (3, 1, 5), (4, 1, 2)):
            await run.submit(value, level=level, width=width)
    assert run.ran() == [[3], [4, 1], [2]]


async def test_a_priority_works_with_deadlines_and_callers_that_leave(gate: threading.Event) -> None:
    async with holding(gate, levels=2, default_level=1) as run:
        late = await run.submit(1, level=1, deadline=asyncio.get_running_loop().time() + 0.02)
        leaves = await run.submit(2, level=1)
        await run.submit(3, level=2)
        await run.submit(4, level=1)
        leaves.cancel()
        with pytest.raises(DeadlineExceededError):
            await late
    assert run.ran() == [[4], [3]]


async def test_max_queue_size_counts_requests(gate: threading.Event) -> None:
    async with holding(gate, 4, default=QueuePolicy(max_requests=2)) as run:
        first = await run.submit(1, 2, 3)
        await run.submit(4, 5, 6)
        with pytest.raises(QueueFullError, match=r"2 requests are waiting, and max_queue_size is 2; try again later"):
            await run.infer(7)
        with pytest.raises(QueueFullError):
            run.batcher.reject_early(1)  # before the work of decoding
        first.cancel()
        await until(lambda: run.batcher.waiting_requests == 1)
        await run.submit(8)
    assert run.ran() == [[4, 5, 6, 8]]


async def test_each_level_has_a_limit_of_its_own(gate: threading.Event) -> None:
    limited = {2: QueuePolicy(max_requests=1)}
    async with holding(gate, levels=2, default_level=1, policies=limited) as run:
        await run.submit(1, level=2)
        with pytest.raises(QueueFullError, match="1 requests of priority level 2"):
            await run.infer(2, level=2)
        await run.submit(3, level=1)
        await run.submit(4, level=1)
    assert run.ran() == [[3], [4], [1]]


async def test_a_request_that_waits_too_long_is_refused_while_the_engine_is_busy(gate: threading.Event) -> None:
    async with holding(gate, default=QueuePolicy(timeout=0.02)) as run:
        late = await run.submit(1)
        with pytest.raises(QueueTimeoutError, match=r"model 'm': Request timeout expired: .* try again later"):
            await late
        assert run.batcher.waiting_requests == 0
        assert run.held is not None
        assert not run.held.done()
    assert run.ran() == []  # it was not run


async def test_a_time_in_the_queue_ends_with_the_run(gate: threading.Event) -> None:
    """The request in the engine is held for much longer than it may wait."""
    async with holding(gate, default=QueuePolicy(timeout=0.02)) as run:
        with pytest.raises(QueueTimeoutError):
            await (await run.submit(1))
        gate.set()
        assert run.held is not None
        assert (await run.held).arrays[0].tolist() == [[200, 200]]


async def test_a_request_that_waits_too_long_goes_behind_the_others(gate: threading.Event) -> None:
    policy = QueuePolicy(timeout=0.02, delay_late=True)
    async with holding(gate, default=policy) as run:
        late = await run.submit(1)
        await until(lambda: late.done() or run.queue.oldest().rank[1])
        await run.submit(2)
        assert run.batcher.waiting_requests == 2
        gate.set()
        assert (await late).arrays[0].tolist() == [[2, 2]]
    assert run.ran() == [[2], [1]]


async def test_a_late_request_still_goes_before_lower_priorities(gate: threading.Event) -> None:
    policies = {1: QueuePolicy(timeout=0.01, delay_late=True)}
    async with holding(gate, levels=2, default_level=2, policies=policies) as run:
        await run.submit(1, level=1)
        await until(lambda: run.queue.oldest().rank[1])
        await run.submit(2, level=2)
        await run.submit(3, level=1)
    assert run.ran() == [[3], [1], [2]]


async def test_a_request_may_shorten_its_time_only_where_that_is_allowed(gate: threading.Event) -> None:
    policies = {1: QueuePolicy(timeout=60.0, allow_override=True), 2: QueuePolicy(timeout=60.0)}
    async with holding(gate, levels=2, default_level=1, policies=policies) as run:
        stays = await run.submit(2, level=2, asked_wait=0.001)
        with pytest.raises(QueueTimeoutError):
            await (await run.submit(1, level=1, asked_wait=0.01))
        assert not stays.done()
    assert run.ran() == [[2]]


async def test_after_the_delay_a_batch_takes_all_that_fit_whatever_is_preferred(gate: threading.Event) -> None:
    engine = FakeEngine(gate=gate)
    options = BatcherOptions(max_batch_size=4, max_queue_rows=64, max_delay=0.01, preferred_sizes=(2,))
    run = HeldBatcher(engine, options)
    tasks = [asyncio.ensure_future(run.infer(100, 100))]
    await until(engine.started.is_set)
    tasks += [await run.submit(value) for value in (1, 2, 3)]
    await asyncio.sleep(0.03)
    gate.set()
    async with asyncio.timeout(20):
        await asyncio.gather(*tasks)
        await run.batcher.drain()
    assert run.ran() == [[1, 2, 3]]


async def test_a_queue_delay_ends_before_a_request_is_refused(gate: threading.Event) -> None:
    """An idle engine must not cost a request its time in the queue."""
    engine = FakeEngine()
    options = BatcherOptions(
        max_batch_size=4,
        max_queue_rows=64,
        max_delay=600.0,
        queue=QueueRules(default_policy=QueuePolicy(timeout=0.5)),
    )
    run = HeldBatcher(engine, options)
    async with asyncio.timeout(20):
        assert (await run.infer(1)).arrays[0].tolist() == [[2, 2]]
        await run.batcher.drain()

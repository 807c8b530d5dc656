"""Queue delay: an idle engine waits for more requests; its ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import numpy as np

from mnserve.batching.batcher import Batcher
from mnserve.batching.options import BatcherOptions
from mnserve.batching.request_limits import RequestLimits
from mnserve.codec.decoding import InferenceWork
from mnserve.engines.fake import FakeEngine
from mnserve.execution.engine_thread import EngineThread
from mnserve.execution.instances import Instance
from mnserve.execution.results import InferenceResult


def work(*values: float, width: int = 2) -> InferenceWork:
    """One row for each value."""
    return InferenceWork(
        feeds={"x": np.repeat(np.array(values, dtype=np.float32)[:, None], width, axis=1)},
        rows=len(values),
        outputs=("y",),
    )


class Delayed:
    """A batcher of up to four rows with a queue delay."""

    def __init__(self, seconds: float, preferred: tuple[int, ...] = ()) -> None:
        self.engine = FakeEngine()
        options = BatcherOptions(max_batch_size=4, max_queue_rows=64, max_delay=seconds, preferred_sizes=preferred)
        instance = Instance(engine=self.engine, thread=EngineThread("m"))
        self.batcher = Batcher([instance], name="m", options=options)
        self.batcher.start()
        self.tasks: list[asyncio.Task[InferenceResult]] = []

    def submit(self, request: InferenceWork, deadline: float | None = None) -> asyncio.Task[InferenceResult]:
        task = asyncio.ensure_future(self.batcher.infer(request, RequestLimits(deadline=deadline)))
        self.tasks.append(task)
        return task

    def batches(self) -> list[int]:
        return [len(call["x"]) for call in self.engine.calls]


def firsts(answer: InferenceResult) -> list[float]:
    return [float(value) for value in answer.arrays[0][:, 0]]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


async def test_a_delay_ends_with_a_full_batch() -> None:
    run = Delayed(60.0)
    tasks = [run.submit(work(value)) for value in range(4)]
    async with asyncio.timeout(20):
        await asyncio.gather(*tasks)
    assert run.batches() == [4]
    lonely = run.submit(work(1))
    await until(lambda: run.batcher.waiting_rows == 1)
    assert run.batches() == [4]
    async with asyncio.timeout(20):
        await run.batcher.drain()  # a drain ends the delay
    assert firsts(await lonely) == [2]


async def test_a_delay_ends_after_its_time() -> None:
    run = Delayed(0.01)
    assert firsts(await run.submit(work(1))) == [2]
    await run.batcher.drain()


async def test_a_full_batch_does_not_wait_behind_a_request_of_another_shape() -> None:
    run = Delayed(600.0)
    odd = run.submit(work(9, width=5))
    await until(lambda: run.batcher.waiting_rows == 1)
    async with asyncio.timeout(20):
        await asyncio.gather(*(run.submit(work(value)) for value in range(4)))
        assert firsts(await odd) == [18]
    assert [call["x"].shape for call in run.engine.calls] == [(1, 5), (4, 2)]
    lonely = run.submit(work(1))
    await asyncio.sleep(0.05)
    assert not lonely.done()  # no bucket is full any more
    await run.batcher.drain()


async def test_a_delay_is_cut_short_by_a_deadline_that_it_would_break() -> None:
    run = Delayed(600.0)
    patient = run.submit(work(1, width=5))
    hurried = run.submit(work(2), deadline=asyncio.get_running_loop().time() + 0.5)
    async with asyncio.timeout(20):
        assert firsts(await hurried) == [4]
        assert firsts(await patient) == [2]  # it is older and was served first
    await run.batcher.drain()


async def test_a_batch_of_a_preferred_size_waits_no_longer() -> None:
    run = Delayed(600.0, preferred=(2,))
    lonely = run.submit(work(1))
    await asyncio.sleep(0.02)
    assert not lonely.done()
    async with asyncio.timeout(20):
        assert firsts(await run.submit(work(2))) == [4]
        assert firsts(await lonely) == [2]
    three = [run.submit(work(value)) for value in (3, 4, 5)]
    async with asyncio.timeout(20):
        await asyncio.gather(*three[:2])
    await asyncio.sleep(0.02)
    assert not three[2].done()  # the rest waits for the next
    assert run.batches() == [2, 2]
    await run.batcher.drain()
    assert firsts(await three[2]) == [10]


async def test_a_delay_that_is_over_takes_all_that_fit_whatever_is_preferred() -> None:
    run = Delayed(0.05, preferred=(2,))
    tasks = [run.submit(work(1, 2, 3))]
    await asyncio.gather(*tasks)
    assert run.batches() == [3]
    await run.batcher.drain()


async def test_without_a_delay_no_request_waits_for_a_preferred_size() -> None:
    run = Delayed(0.0, preferred=(4,))
    async with asyncio.timeout(20):
        assert firsts(await run.submit(work(1))) == [2]
    await run.batcher.drain()

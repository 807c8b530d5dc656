"""Batches that come alone, one after the other, run on an engine of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import numpy as np
import pytest

from mnserve.batching.batcher import Batcher
from mnserve.batching.options import BatcherOptions
from mnserve.batching.request_limits import RequestLimits
from mnserve.codec.decoding import InferenceWork
from mnserve.engines.fake import FakeEngine
from mnserve.errors import StoppingError
from mnserve.execution.engine_thread import EngineThread
from mnserve.execution.instances import Instance
from mnserve.execution.lone_batches import LoneBatches


def work(rows: int = 1) -> InferenceWork:
    return InferenceWork(feeds={"x": np.ones((rows, 2), np.float32)}, rows=rows, outputs=("y",))


class Side:
    """A batcher with engines side by side and one for batches that come alone, which all wait for a gate."""

    def __init__(
        self,
        count: int,
        *,
        lone_rows: int = 1,
        gate: threading.Event | None = None,
        before: Callable[[], object] = lambda: None,
    ) -> None:
        self.engines = [FakeEngine(gate=gate) for _ in range(count)]
        self.wide = FakeEngine(gate=gate)
        instances = [Instance(engine=engine, thread=EngineThread("m")) for engine in self.engines]
        thread = EngineThread("m")
        thread.post(before)
        instances.append(Instance(engine=self.wide, thread=thread, lone_rows=lone_rows))
        self.batcher = Batcher(instances, name="m", options=BatcherOptions(max_batch_size=4, max_queue_rows=64))
        self.batcher.start()
        done = threading.Event()
        thread.post(done.set)
        self.ended = done.wait

    @property
    def rows(self) -> tuple[list[int], list[int]]:
        """Rows of the batches of the engines side by side, and of those that came alone."""
        own = [len(call["x"]) for engine in self.engines for call in engine.calls]
        return sorted(own), [len(call["x"]) for call in self.wide.calls]


def test_the_second_of_two_that_come_alone_is_the_first() -> None:
    lone = LoneBatches(rows=2)
    seen = [(2, True), (2, True), (1, True), (2, True), (2, False), (2, True), (2, True)]
    assert [lone.has(rows, alone=alone) for rows, alone in seen] == [False, True, False, True, False, False, True]


async def test_one_caller_has_all_cpus_and_several_have_one_each() -> None:
    side = Side(2)
    async with asyncio.timeout(20):
        for _ in range(3):
            await side.batcher.infer(work())
        assert side.rows == ([1], [1, 1])
        for _ in range(4):
            await asyncio.gather(*(side.batcher.infer(work(4)) for _ in range(2)))
        assert side.rows[1] == [1, 1, *side.rows[1][2:]]
        assert len(side.rows[0]) >= 8
        await side.batcher.drain()


async def test_a_batch_of_few_rows_runs_as_others_do() -> None:
    side = Side(2, lone_rows=3)
    async with asyncio.timeout(20):
        for rows in (3, 2, 3, 4):
            await side.batcher.infer(work(rows))
        assert side.rows == ([2, 3], [3, 4])
        await side.batcher.drain()


async def test_with_one_engine_for_many_callers_a_batch_of_several_did_not_come_alone() -> None:
    side = Side(1)
    async with asyncio.timeout(20):
        await side.batcher.infer(work())
        await asyncio.gather(*(side.batcher.infer(work()) for _ in range(3)))
        assert side.rows == ([1, 3], [])
        await side.batcher.drain()


async def test_what_its_engine_has_not_begun_is_taken_back() -> None:
    gate = threading.Event()
    side = Side(2, before=gate.wait)
    try:
        async with asyncio.timeout(20):
            await side.batcher.infer(work())
            call = asyncio.get_running_loop().create_future()
            request = side.batcher.admit(work(), RequestLimits(), call)
            await asyncio.sleep(0.01)
            side.batcher.abort()
            assert not request.in_batch, "its tensors may go"
            with pytest.raises(StoppingError):
                await call
    finally:
        gate.set()
    assert await asyncio.to_thread(side.ended, 10)
    assert side.rows == ([1], [])


async def test_what_waits_for_the_engine_is_given_up_with_the_rest() -> None:
    gate = threading.Event()
    side = Side(2, gate=gate)
    try:
        async with asyncio.timeout(20):
            gate.set()
            await side.batcher.infer(work())
            gate.clear()
            call = asyncio.ensure_future(side.batcher.infer(work()))
            await asyncio.to_thread(side.wide.started.wait, 10)
            side.batcher.abort()
            with pytest.raises(StoppingError):
                await call
    finally:
        gate.set()
    assert side.rows[1] == [1]

"""Engines that hang in a batch, or that fail on inputs that worked before."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from mnserve.batching.batcher import Batcher
from mnserve.batching.options import BatcherOptions
from mnserve.codec.decoding import InferenceWork
from mnserve.engines.fake import FakeEngine
from mnserve.errors import EngineInputError, EngineRunError, ModelNotReadyError
from mnserve.execution.engine_thread import EngineThread
from mnserve.execution.health_options import EngineHealthOptions
from mnserve.execution.instances import Instance
from mnserve.execution.state import ServingState

Feeds = Mapping[str, Any]


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Gate that holds the engine; opened in the end, so that no thread is left behind."""
    event = threading.Event()
    yield event
    event.set()


def work(*values: float) -> InferenceWork:
    return InferenceWork(feeds={"x": np.array([values], np.float32).T}, rows=len(values), outputs=("y",))


def start(engines: list[FakeEngine], health: EngineHealthOptions, deaths: list[str]) -> Batcher:
    batcher = Batcher(
        [Instance(engine=engine, thread=EngineThread("m")) for engine in engines],
        name="m",
        options=BatcherOptions(max_batch_size=1, max_queue_rows=64),
        on_death=deaths.append,
        health=health,
    )
    batcher.start()
    return batcher


async def until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


async def test_a_batch_that_does_not_end_in_time_breaks_the_model(gate: threading.Event) -> None:
    deaths: list[str] = []
    engine = FakeEngine(gate=gate)
    batcher = start([engine], EngineHealthOptions(run_timeout=0.05), deaths)
    calls = [asyncio.create_task(batcher.infer(work(number))) for number in range(3)]
    async with asyncio.timeout(20):
        errors = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(error, ModelNotReadyError) for error in errors)
    (reason,) = deaths
    assert "a run of its engine has not ended after 0.05 s; load the model again, or restart the server" in reason
    assert batcher.hung
    assert batcher.state is ServingState.BROKEN
    assert batcher.idle
    with pytest.raises(ModelNotReadyError, match="has not ended"):
        await batcher.infer(work(1))
    async with asyncio.timeout(20):
        await batcher.drain()


@pytest.mark.parametrize("stand_still", [0.5, 0.8, 1.6])
async def test_time_for_which_the_whole_process_stood_still_is_not_counted(
    gate: threading.Event, stand_still: float
) -> None:
    """As in a frozen container: the engine did not compute meanwhile either, however long that was."""
    deaths: list[str] = []
    engine = FakeEngine(gate=gate)
    batcher = start([engine], EngineHealthOptions(run_timeout=0.6), deaths)
    for _ in range(2):
        call = asyncio.create_task(batcher.infer(work(1)))
        await until(engine.started.is_set)
        await asyncio.sleep(0.05)
        time.sleep(stand_still)
        await asyncio.sleep(0.2)
        assert not deaths
        gate.set()
        assert (await call).arrays[0].tolist() == [[2]]
        gate.clear()
        engine.started.clear()
    call = asyncio.create_task(batcher.infer(work(1)))
    with pytest.raises(ModelNotReadyError, match="has not ended after"):  # what has stood still before is no excuse
        await asyncio.wait_for(call, 20)
    assert deaths
    async with asyncio.timeout(20):
        await batcher.drain()


async def test_other_instances_end_their_batches(gate: threading.Event) -> None:
    """The one that hangs is left to itself; nothing new is run on the other."""
    deaths: list[str] = []
    other = threading.Event()
    engines = [FakeEngine(gate=gate), FakeEngine(gate=other)]
    batcher = start(engines, EngineHealthOptions(run_timeout=0.2), deaths)
    calls = [asyncio.create_task(batcher.infer(work(number))) for number in range(2)]
    await until(lambda: all(engine.started.is_set() for engine in engines))
    await until(lambda: deaths)
    other.set()
    errors = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(error, ModelNotReadyError) for error in errors)
    async with asyncio.timeout(20):
        await batcher.drain()


async def test_batches_within_the_limit_break_nothing() -> None:
    deaths: list[str] = []
    batcher = start([FakeEngine(seconds=0.03)], EngineHealthOptions(run_timeout=2.0), deaths)
    for number in range(4):
        answer = await batcher.infer(work(number))
        assert answer.arrays[0].tolist() == [[2.0 * number]]
    await batcher.drain()
    assert not deaths
    assert not batcher.hung


class Flaky:
    """Fails on negative numbers, and on everything once it is broken."""

    def __init__(self, error: type[Exception] = EngineRunError) -> None:
        self.error = error
        self.broken = False

    def __call__(self, feeds: Feeds) -> Feeds:
        if self.broken or feeds["x"].min() < 0:
            raise self.error("the device is lost")
        return {"y": feeds["x"] * 2}


async def test_an_engine_that_fails_its_probe_breaks_the_model() -> None:
    deaths: list[str] = []
    function = Flaky()
    batcher = start([FakeEngine(function=function)], EngineHealthOptions(probe=lambda: work(0)), deaths)
    function.broken = True
    with pytest.raises(EngineRunError, match="the device is lost"):
        await batcher.infer(work(1))
    await until(lambda: deaths)
    assert "its engine fails on what it ran when it was loaded (the device is lost)" in deaths[0]
    with pytest.raises(ModelNotReadyError):
        await batcher.infer(work(1))
    await batcher.drain()
    assert not batcher.hung


async def test_a_request_that_fails_alone_breaks_nothing_and_is_not_probed_each_time() -> None:
    deaths: list[str] = []
    engine = FakeEngine(function=Flaky())
    batcher = start([engine], EngineHealthOptions(probe=lambda: work(0)), deaths)
    for _ in range(5):
        with pytest.raises(EngineRunError):
            await batcher.infer(work(-1))
        assert (await batcher.infer(work(3))).arrays[0].tolist() == [[6.0]]
    await batcher.drain()
    assert not deaths
    assert [float(call["x"][0, 0]) for call in engine.calls].count(0.0) == 1


async def test_the_engine_is_probed_again_after_a_while() -> None:
    deaths: list[str] = []
    function = Flaky()
    options = EngineHealthOptions(probe=lambda: work(0), probe_seconds=0.0)
    batcher = start([FakeEngine(function=function)], options, deaths)
    with pytest.raises(EngineRunError):
        await batcher.infer(work(-1))
    await batcher.infer(work(1))
    assert not deaths
    function.broken = True
    with pytest.raises(EngineRunError):
        await batcher.infer(work(1))
    await until(lambda: deaths)
    await batcher.drain()


async def test_values_that_no_engine_takes_cause_no_probe() -> None:
    engine = FakeEngine(function=Flaky(EngineInputError))
    batcher = start([engine], EngineHealthOptions(probe=lambda: work(0)), [])
    with pytest.raises(EngineInputError):
        await batcher.infer(work(-1))
    await batcher.infer(work(1))
    await batcher.drain()
    assert len(engine.calls) == 2

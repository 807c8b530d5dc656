"""Models on their way out while the server stops: whoever waits for one that takes too long is told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mnserve.codec.decoding import InferenceWork
from mnserve.engines.base import EngineOptions
from mnserve.engines.fake import FakeEngine
from mnserve.errors import EngineRunError, StoppingError
from mnserve.models.loading import LoadOptions
from mnserve.models.registry import Models

WriteModel = Callable[..., Path]


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Gate that blocks an engine; opened at the end, so that no thread stays behind."""
    found = threading.Event()
    yield found
    found.set()


def work(value: float = 1.0) -> InferenceWork:
    return InferenceWork(feeds={"x": np.full((1, 4), value, np.float32)}, rows=1, outputs=("y",))


@pytest.mark.parametrize("way", ["load", "unload"])
async def test_requests_of_a_model_that_was_taken_out_are_given_up_with_the_others(
    repository: Path, double_model: WriteModel, gate: threading.Event, way: str
) -> None:
    double_model("m")
    engines: list[FakeEngine] = []

    def factory(path: Path, options: EngineOptions) -> FakeEngine:
        engines.append(FakeEngine(gate=None if engines else gate))
        return engines[-1]

    models = Models(repository, LoadOptions(warm_up=False, factory=factory))
    await models.load_all()
    batcher = models.find("m").batcher
    tasks = [asyncio.ensure_future(batcher.infer(work())) for _ in range(3)]
    assert await asyncio.to_thread(engines[0].started.wait, 20)
    await (models.load("m") if way == "load" else models.unload("m"))
    models.stop()
    assert not await models.drain(0.05)
    async with asyncio.timeout(20):
        for task in tasks:
            with pytest.raises(StoppingError, match="the server stopped before this request could finish"):
                await task
    assert not engines[0].closed, "it still runs"
    assert all(engine.closed for engine in engines[1:])


async def test_requests_of_removed_models_finish_within_the_drain_timeout(
    repository: Path, double_model: WriteModel, gate: threading.Event
) -> None:
    double_model("m")
    engine = FakeEngine(gate=gate)
    models = Models(repository, LoadOptions(warm_up=False, factory=lambda path, options: engine))
    await models.load_all()
    task = asyncio.ensure_future(models.find("m").batcher.infer(work()))
    assert await asyncio.to_thread(engine.started.wait, 20)
    await models.unload("m")
    draining = asyncio.ensure_future(models.drain(20))
    await asyncio.sleep(0.01)
    gate.set()
    assert (await task).arrays[0].tolist() == [[2] * 4]
    assert await draining
    assert engine.closed


async def test_a_probe_that_hangs_is_given_up_in_time(
    repository: Path, double_model: WriteModel, gate: threading.Event
) -> None:
    """The drain does not wait for the probe, and the engine is not closed while the probe runs."""
    double_model("m", config='max_batch_size: 4 input { name: "x" data_type: TYPE_FP32 dims: [4] }')
    probing, warm = threading.Event(), False

    def flaky(feeds: Mapping[str, Any]) -> Mapping[str, Any]:
        if feeds["x"].any():
            raise EngineRunError("no ones")
        if warm:
            probing.set()
            gate.wait()
        return {"y": feeds["x"]}

    engine = FakeEngine(function=flaky)
    models = Models(repository, LoadOptions(factory=lambda path, options: engine))
    await models.load_all()
    warm = True
    with pytest.raises(EngineRunError, match="no ones"):
        await models.find("m").batcher.infer(work())
    assert await asyncio.to_thread(probing.wait, 20)
    assert not await models.drain(0.05)
    assert not engine.closed

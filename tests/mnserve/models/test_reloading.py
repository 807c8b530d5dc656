"""Models that are loaded again, loaded one by one, and unloaded, while requests go on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

from mnserve.codec.decoding import InferenceWork
from mnserve.engines.base import EngineOptions
from mnserve.engines.fake import FakeEngine
from mnserve.errors import LoadFailedError, ModelNotReadyError, StoppingError, UnknownModelError
from mnserve.models.loading import LoadOptions
from mnserve.models.registry import Models
from mnserve.protocol import service_pb2 as pb
from mnserve.rpc.inference import Inference

WriteModel = Callable[..., Path]


@asynccontextmanager
async def loaded(root: Path, on_change: Callable[[], None] = lambda: None) -> AsyncIterator[Models]:
    models = Models(root, LoadOptions(engine=EngineOptions(intra_op_threads=1)), on_change)
    await models.load_all()
    yield models
    await models.drain(20)


def row() -> InferenceWork:
    return InferenceWork(feeds={"x": np.ones((1, 4), np.float32)}, rows=1, outputs=("y",))


def request() -> pb.ModelInferRequest:
    message = pb.ModelInferRequest(model_name="m")
    message.inputs.add(name="x", datatype="FP32", shape=[1, 4])
    message.raw_input_contents.append(np.ones(4, "<f4").tobytes())
    return message


async def test_loading_again_serves_what_is_on_disk_now(repository: Path, double_model: WriteModel) -> None:
    double_model("m")
    changes: list[bool] = []
    async with loaded(repository, lambda: changes.append(True)) as models:
        before = models.find("m")
        await before.batcher.infer(row())
        before.counters.record_failure(reason="OTHER", total_ns=1)
        double_model("m", version=2)
        await models.load("m")
        after = models.find("m")
        assert (before.model.version, after.model.version) == (1, 2)
        await models.load("m")
        again = models.find("m")
        assert again is not after
        assert again.counters is after.counters, "a version that is loaded again goes on counting"
        assert (await again.batcher.infer(row())).arrays[0].tolist() == [[2] * 4]
        with pytest.raises(StoppingError):
            await before.batcher.infer(row())
        assert len(changes) == 3


async def test_requests_admitted_before_a_reload_are_still_answered(repository: Path, double_model: WriteModel) -> None:
    double_model("m")
    gate, engines = threading.Event(), list[FakeEngine]()

    def factory(path: Path, options: EngineOptions) -> FakeEngine:
        engines.append(FakeEngine(gate=None if engines else gate))
        return engines[-1]

    models = Models(repository, LoadOptions(warm_up=False, factory=factory))
    await models.load_all()
    tasks = [asyncio.ensure_future(models.find("m").batcher.infer(row())) for _ in range(3)]
    assert await asyncio.to_thread(engines[0].started.wait, 20)
    await models.load("m")
    assert not engines[0].closed
    await models.find("m").batcher.infer(row())
    gate.set()
    assert [(await task).arrays[0].tolist() for task in tasks] == [[[2] * 4]] * 3
    async with asyncio.timeout(20):
        while not engines[0].closed:
            await asyncio.sleep(0.001)
    await models.unload("m")
    assert await models.drain(20)
    assert engines[1].closed


async def test_a_model_that_cannot_be_loaded_again_stays_as_it_was(repository: Path, double_model: WriteModel) -> None:
    folder = double_model("m")
    double_model("n")
    async with loaded(repository) as models:
        before = models.find("m")
        good = (folder / "1" / "model.onnx").read_bytes()
        (folder / "1" / "model.onnx").write_bytes(b"garbage")
        with pytest.raises(LoadFailedError, match="was not loaded again, what was served stays: ONNX Runtime cannot"):
            await models.load("m")
        assert models.find("m") is before
        assert models.ready
        await before.batcher.infer(row())
        await models.load("n")
        await models.unload("m")
        with pytest.raises(LoadFailedError, match="model 'm' was not loaded: ONNX Runtime cannot"):
            await models.load("m")
        with pytest.raises(ModelNotReadyError, match="cannot load"):
            models.find("m")
        assert not models.ready
        (folder / "1" / "model.onnx").write_bytes(good)
        await models.load("m")
        assert models.ready
        with pytest.raises(UnknownModelError, match="has no model 'gone'"):
            await models.load("gone")
        for name in ("../m", "", ".hidden"):
            with pytest.raises(UnknownModelError):
                await models.load(name)


async def test_only_the_named_models_are_loaded(repository: Path, double_model: WriteModel) -> None:
    for name in "abc":
        double_model(name)
    models = Models(repository, LoadOptions(engine=EngineOptions(intra_op_threads=1)))
    with pytest.raises(UnknownModelError, match="no model 'z'"):
        await models.load_all(["a", "z"])
    await models.load_all(["b"])
    assert [(state.name, state.ready) for state in models.states()] == [("a", False), ("b", True), ("c", False)]
    assert models.ready, "what nobody asked for is not missing"
    for version in ("", "1"):
        with pytest.raises(ModelNotReadyError, match="it is not loaded; load it with RepositoryModelLoad"):
            models.find("a", version)
    assert not models.is_ready("a")
    await models.load("a")
    await models.unload("b")
    assert [models.is_ready(name) for name in "abc"] == [True, False, False]
    models.stop()
    for call in (models.load("c"), models.unload("a")):
        with pytest.raises(StoppingError):
            await call
    assert await models.drain(20)


async def test_requests_never_fail_while_a_model_is_loaded_again(repository: Path, double_model: WriteModel) -> None:
    double_model("m")
    async with loaded(repository) as models:
        inference = Inference(models)
        message = request()
        done, stop = 0, False

        async def ask() -> None:
            nonlocal done
            while not stop:
                answer = await inference.answer(message)
                assert np.frombuffer(answer.raw_output_contents[0], "<f4").tolist() == [2] * 4
                done += 1

        askers = [asyncio.ensure_future(ask()) for _ in range(8)]
        for _ in range(10):
            await models.load("m")
        stop = True
        await asyncio.gather(*askers)
        counters = models.find("m").counters
        assert counters.success.count == done > 10
        assert not any(item.count for item in counters.failure.values())


async def test_a_request_that_found_a_replaced_model_is_answered_by_the_new_one(
    repository: Path, double_model: WriteModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    double_model("m")
    async with loaded(repository) as models:
        inference = Inference(models)
        message = request()
        old = models.find("m")
        await models.load("m")
        find, found = models.find, [old]
        monkeypatch.setattr(models, "find", lambda *names: found.pop() if found else find(*names))
        assert (await inference.answer(message)).model_version == "1"
        assert not any(item.count for item in old.counters.failure.values())

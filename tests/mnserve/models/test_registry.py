"""Loading a repository: good models, broken ones, and which one a request means."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mnserve.batching.batcher import Batcher
from mnserve.codec.decoding import InferenceWork
from mnserve.engines.base import EngineOptions
from mnserve.engines.fake import FakeEngine
from mnserve.errors import (
    InvalidRequestError,
    ModelNotReadyError,
    RepositoryNotFoundError,
    StoppingError,
    UnknownModelError,
)
from mnserve.models.entry import ModelEntry
from mnserve.models.load_options import LoadOptions
from mnserve.models.loading import load
from mnserve.models.registry import Models

WriteModel = Callable[..., Path]


@asynccontextmanager
async def loaded(root: Path, on_change: Callable[[], None] = lambda: None, **fields: Any) -> AsyncIterator[Models]:
    models = Models(root, LoadOptions(engine=EngineOptions(intra_op_threads=1), **fields), on_change)
    await models.load_all()
    yield models
    await models.drain(20)


async def test_broken_models_stand_beside_good_ones(repository: Path, double_model: WriteModel) -> None:
    double_model("good")
    (double_model("garbage") / "1" / "model.onnx").write_bytes(b"garbage")
    (double_model("half") / "1" / "model.onnx").write_bytes(
        (repository / "good" / "1" / "model.onnx").read_bytes()[:60]
    )
    double_model("unparsable", config="}")
    double_model("disagreeing", config='max_batch_size: 2 input { name: "q" data_type: TYPE_FP32 dims: 4 }')
    (repository / "empty").mkdir()
    (repository / "empty" / "config.pbtxt").touch()
    (repository / "stray").mkdir()
    async with loaded(repository) as models:
        states = {state.name: state for state in models.states()}
        assert [name for name, state in states.items() if state.ready] == ["good"]
        assert "ONNX Runtime cannot load" in states["garbage"].reason
        assert "does not parse" in states["unparsable"].reason
        assert "input 'q'" in states["disagreeing"].reason
        assert "empty/1/" in states["empty"].reason
        assert states["empty"].version is None
        assert not models.ready
        assert models.is_ready("good")
        assert not models.is_ready("garbage")
        with pytest.raises(ModelNotReadyError, match="does not parse"):
            models.find("unparsable")
        with pytest.raises(ModelNotReadyError, match="cannot load"):
            models.find("garbage", "1")
        assert [counters.name for counters in models.counters()] == ["good"]


async def test_an_unexpected_fault_of_one_model_leaves_the_others(
    repository: Path, double_model: WriteModel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("bad", "good"):
        double_model(name)
    start = Batcher.start

    def fail_once(self: Batcher) -> None:
        if self._name == "bad":
            raise RuntimeError("nobody thought of this")
        start(self)

    monkeypatch.setattr(Batcher, "start", fail_once)
    async with loaded(repository) as models:
        assert models.is_ready("good")
        (bad,) = (state for state in models.states() if state.name == "bad")
        assert bad.reason == "RuntimeError: nobody thought of this"
        assert "Traceback" in caplog.text


async def test_the_default_version_is_the_highest_that_is_ready(repository: Path, double_model: WriteModel) -> None:
    double_model("m", config="version_policy { latest { num_versions: 2 } }")
    double_model("m", version=2)
    (double_model("m", version=3) / "3" / "model.onnx").write_bytes(b"garbage")
    async with loaded(repository) as models:
        assert models.find("m").model.version == 2  # the highest that is ready
        assert models.find("m", "2").model.version == 2
        with pytest.raises(ModelNotReadyError, match="version 3"):
            models.find("m", "3")
        for version in ("1", "9", "9" * 18):
            with pytest.raises(UnknownModelError, match="the server has 2"):
                models.find("m", version)
        for version in ("x", "-1", "1.0", " 1", "9" * 5000, "\u0661"):
            with pytest.raises(InvalidRequestError, match="not a number"):
                models.find("m", version)
        with pytest.raises(UnknownModelError, match="no model 'n'; the server has m"):
            models.find("n")
        assert not models.is_ready("n")
        with pytest.raises(InvalidRequestError):
            models.is_ready("m", "x")


async def test_the_server_is_ready_while_every_model_is(repository: Path, double_model: WriteModel) -> None:
    double_model("a")
    double_model("b")
    changes: list[bool] = []
    async with loaded(repository, lambda: changes.append(True)) as models:
        assert models.ready
        models.stop()
        assert not models.ready
        assert not models.is_ready("a")
        assert changes == [True] * 3  # two loads and the stop
        work = InferenceWork(feeds={"x": np.ones((1, 4), np.float32)}, rows=1, outputs=("y",))
        assert (await models.find("a").batcher.infer(work)).arrays[0].tolist() == [[2, 2, 2, 2]]
        assert await models.drain(20)
        with pytest.raises(StoppingError):
            await models.find("a").batcher.infer(work)


async def test_a_dead_batch_loop_takes_its_model_out(repository: Path, double_model: WriteModel) -> None:
    double_model("m")
    changes: list[bool] = []
    async with loaded(repository, lambda: changes.append(True)) as models:
        served = models.find("m")
        served.batcher._on_batch = lambda execution: 1 / 0  # type: ignore[assignment,return-value]
        work = InferenceWork(feeds={"x": np.ones((1, 4), np.float32)}, rows=1, outputs=("y",))
        with pytest.raises(ModelNotReadyError):
            await served.batcher.infer(work)
        assert changes == [True] * 2  # the load and the death
        assert not models.ready
        with pytest.raises(ModelNotReadyError, match="batch loop died"):
            models.find("m")


async def test_drain_gives_up_on_an_engine_that_hangs(repository: Path, double_model: WriteModel) -> None:
    double_model("m")
    gate = threading.Event()
    engine = FakeEngine(gate=gate)
    models = Models(repository, LoadOptions(warm_up=False, factory=lambda path, options: engine))
    await models.load_all()
    work = InferenceWork(feeds={"x": np.ones((1, 4), np.float32)}, rows=1, outputs=("y",))
    task = asyncio.ensure_future(models.find("m").batcher.infer(work))
    assert await asyncio.to_thread(engine.started.wait, 20)
    assert not await models.drain(0.05)
    with pytest.raises(StoppingError):
        await task
    gate.set()


async def test_a_missing_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RepositoryNotFoundError):
        await Models(tmp_path / "none", LoadOptions()).load_all()


def test_limits_come_from_the_configuration(repository: Path, double_model: WriteModel) -> None:
    options = LoadOptions(engine=EngineOptions(intra_op_threads=1), default_max_batch_size=16)
    double_model("bare")
    batching = load(repository, "bare", 1, options).batching
    assert (batching.max_batch_size, batching.max_queue_rows, batching.max_delay) == (16, 1024, None)
    double_model(
        "full",
        config="max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 2500 "
        "default_queue_policy { max_queue_size: 20 } }",
    )
    batching = load(repository, "full", 1, options).batching
    assert (batching.max_batch_size, batching.max_queue_rows, batching.max_delay) == (8, 512, 0.0025)
    assert batching.queue.policy(0).max_requests == 20


async def test_the_highest_version_that_is_ready_answers(repository: Path, double_model: WriteModel) -> None:
    double_model("m", config="version_policy { all {} }")
    double_model("m", version=2)
    async with loaded(repository) as models:
        assert [state.ready for state in models.states()] == [True, True]
        assert models.find("m").model.version == 2


async def test_an_idle_server_drains_without_any_time(repository: Path, double_model: WriteModel) -> None:
    double_model("m")
    engine = FakeEngine()
    models = Models(repository, LoadOptions(warm_up=False, factory=lambda path, options: engine))
    await models.load_all()
    assert await models.drain(0)
    assert engine.closed


async def test_idle_models_have_finished_however_long_they_take_to_notice(
    repository: Path, double_model: WriteModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    drain = Batcher.drain

    async def slowly(batcher: Batcher) -> None:
        await asyncio.sleep(0.05)
        await drain(batcher)

    monkeypatch.setattr(Batcher, "drain", slowly)
    double_model("m")
    models = Models(repository, LoadOptions(engine=EngineOptions(intra_op_threads=1)))
    await models.load_all()
    assert await models.drain(0)


async def test_many_models_are_not_all_listed(repository: Path) -> None:
    models = Models(repository, LoadOptions())
    models._entries = {f"m{number:02}": ModelEntry() for number in range(23)}
    with pytest.raises(UnknownModelError, match=r"has m00, .*, m19 and 3 more$"):
        models.find("n")


async def test_a_load_that_takes_long_holds_up_no_other(
    repository: Path, double_model: WriteModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "endless", "z"):
        double_model(name, config="max_batch_size: 2")
    gate, changes = threading.Event(), list[bool]()

    def factory(path: Path, options: EngineOptions) -> FakeEngine:
        return FakeEngine(gate=gate if "endless" in path.parts else None)

    models = Models(repository, LoadOptions(factory=factory), lambda: changes.append(True))
    wait, patience, in_vain = asyncio.wait, 0.4, list[float]()

    async def waited(tasks: Any, timeout: float | None = None) -> Any:
        done, pending = await wait(tasks, timeout=timeout)
        if timeout == patience and not done:
            in_vain.append(patience)
        return done, pending

    monkeypatch.setattr(asyncio, "wait", waited)
    await models.load_all(patience=patience)
    assert models.is_ready("a")
    assert models.is_ready("z")
    assert len(in_vain) == 1, "a load has its time once"
    assert not models.ready
    with pytest.raises(ModelNotReadyError, match="'endless' is not ready: it is being loaded; try again later"):
        models.find("endless")
    assert changes == [True, True]  # a and z
    gate.set()
    async with asyncio.timeout(20):
        while not models.ready:
            await asyncio.sleep(0.01)
    assert changes == [True] * 3
    assert await models.drain(20)


async def test_a_load_that_is_all_there_is_is_waited_for(repository: Path, double_model: WriteModel) -> None:
    double_model("only", config="max_batch_size: 2")
    models = Models(repository, LoadOptions(factory=lambda path, options: FakeEngine(seconds=0.05)))
    await models.load_all(patience=0.01)
    assert models.ready
    assert await models.drain(20)


async def test_a_warm_up_run_has_the_time_of_any_run(repository: Path, double_model: WriteModel) -> None:
    double_model("m", config="max_batch_size: 2")
    gate = threading.Event()
    engine = FakeEngine(gate=gate)
    models = Models(repository, LoadOptions(run_timeout=0.1, factory=lambda path, options: engine))
    await models.load_all()
    (state,) = models.states()
    assert "a warm-up run has not ended after 0.1 s (--run-timeout)" in state.reason
    gate.set()
    async with asyncio.timeout(20):
        while not engine.closed:
            await asyncio.sleep(0.01)
    assert await models.drain(20)


async def test_a_reason_has_a_bounded_length(repository: Path, double_model: WriteModel) -> None:
    double_model("m", config=f'backend: "{"x" * 100_000}"')
    models = Models(repository, LoadOptions())
    await models.load_all()
    (state,) = models.states()
    assert len(state.reason) < 2100
    assert await models.drain(20)

"""Several instances of a model take batches from one queue, side by side."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format

from mnserve.batching.batcher import Batcher
from mnserve.batching.options import BatcherOptions
from mnserve.codec.decoding import InferenceWork
from mnserve.engines import thread_count as engine_threads
from mnserve.engines.base import EngineOptions
from mnserve.engines.fake import FakeEngine
from mnserve.engines.instance_groups import instance_count, instance_options
from mnserve.engines.providers import ProviderOption
from mnserve.errors import EngineLoadError, ModelConfigError, ModelNotReadyError, StoppingError
from mnserve.execution.batch import Batch
from mnserve.execution.engine_thread import EngineThread
from mnserve.execution.instances import Instance, Instances
from mnserve.execution.results import BatchResult, InferenceResult
from mnserve.execution.state import ServingState
from mnserve.models.loading import LoadOptions, load
from mnserve.models.opened_model import OpenedModel
from mnserve.models.registry import Models
from mnserve.protocol.model_config_pb2 import ModelConfig

WriteModel = Callable[..., Path]
CPU, CUDA, OPENVINO = (f"{name}ExecutionProvider" for name in ("CPU", "CUDA", "OpenVINO"))


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Gate that holds engines; opened at the end in any case, so that no thread is left behind."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def other() -> Iterator[threading.Event]:
    """Another gate."""
    event = threading.Event()
    yield event
    event.set()


def work(*values: float) -> InferenceWork:
    """One row for each value."""
    x = np.repeat(np.array(values, dtype=np.float32)[:, None], 2, axis=1)
    return InferenceWork(feeds={"x": x}, rows=len(values), outputs=("y",))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


class Side:
    """A batcher with instances that are held by gates."""

    def __init__(self, gates: list[threading.Event], **fields: Any) -> None:
        self.engines = [FakeEngine(gate=gate) for gate in gates]
        instances = [Instance(engine=engine, thread=EngineThread("m")) for engine in self.engines]
        options = BatcherOptions(max_batch_size=4, max_queue_rows=64)
        self.batcher = Batcher(instances, name="m", options=options, **fields)
        self.batcher.start()

    def submit(self, *values: float) -> asyncio.Task[InferenceResult]:
        return asyncio.ensure_future(self.batcher.infer(work(*values)))

    async def fill(self) -> list[asyncio.Task[InferenceResult]]:
        """A request for each instance, one after the other, so that each is busy with one."""
        tasks = []
        for number in range(len(self.engines)):
            tasks.append(self.submit(number))
            await until(lambda number=number: self.busy() == number + 1)  # type: ignore[misc]
        return tasks

    def busy(self) -> int:
        return sum(engine.started.is_set() for engine in self.engines)

    def batches(self) -> list[list[int]]:
        return [[len(call["x"]) for call in engine.calls] for engine in self.engines]


async def test_instances_run_side_by_side_and_batches_form_while_all_are_busy(gate: threading.Event) -> None:
    side = Side([gate] * 3)
    running = await side.fill()
    waiting = [side.submit(value) for value in range(10, 16)]
    await until(lambda: side.batcher.waiting_rows == 6)
    gate.set()
    answers = await asyncio.gather(*running, *waiting)
    expected = [0, 1, 2, *range(10, 16)]
    assert [answer.arrays[0][0, 0] for answer in answers] == [2 * value for value in expected]
    assert sorted(size for batches in side.batches() for size in batches) == [1, 1, 1, 2, 4]
    await side.batcher.drain()


async def test_one_slow_instance_does_not_hold_up_the_others(gate: threading.Event, other: threading.Event) -> None:
    side = Side([gate, other])
    running = await side.fill()
    other.set()
    async with asyncio.timeout(20):
        done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        for value in range(20):
            assert (await side.submit(value)).arrays[0].tolist() == [[2 * value] * 2]
    assert len(done) == 1
    gate.set()
    await asyncio.gather(*running)
    await side.batcher.drain()


async def test_threads_end_though_batches_are_taken_back_after_they_were_told_to(gate: threading.Event) -> None:
    engine, thread = FakeEngine(gate=gate), EngineThread("m")
    instances = Instances(
        [Instance(engine=engine, thread=thread)],
        batched=True,
        max_rows=4,
        run_timeout=0,
        on_done=lambda batch, outcome: None,
        on_timeout=lambda batch: None,
    )
    instances.start()
    running, waiting = (Batch([], [work(value)]) for value in (1, 2))
    instances.put(running)
    await until(engine.started.is_set)
    instances.put(waiting)
    instances.stop()
    assert instances.state is ServingState.DRAINING
    assert instances.discard() == [waiting]
    assert instances.outstanding == 1
    with pytest.raises(RuntimeError, match="stopped"):
        instances.put(waiting)
    gate.set()
    await until(lambda: not thread._thread.is_alive())
    await until(lambda: instances.outstanding == 0)
    assert instances.state is ServingState.STOPPED


async def test_each_engine_runs_in_a_thread_of_its_own(gate: threading.Event) -> None:
    threads: dict[int, set[int]] = {0: set(), 1: set()}

    def spy(number: int) -> Callable[[Any], Any]:
        def function(feeds: Any) -> Any:
            threads[number].add(threading.get_ident())
            return {"y": feeds["x"]}

        return function

    side = Side([gate, gate])
    for number, engine in enumerate(side.engines):
        engine._function = spy(number)
    running = await side.fill()
    gate.set()
    await asyncio.gather(*running)
    for value in range(10):
        await side.submit(value)
    assert [len(idents) for idents in threads.values()] == [1, 1]
    assert threads[0] != threads[1]
    await side.batcher.drain()


async def test_a_drain_waits_for_all_instances(gate: threading.Event, other: threading.Event) -> None:
    side = Side([gate, other])
    running = await side.fill()
    waiting = side.submit(7)
    await until(lambda: side.batcher.waiting_requests == 1)
    drained = asyncio.ensure_future(side.batcher.drain())
    gate.set()
    async with asyncio.timeout(20):
        assert (await waiting).arrays[0].tolist() == [[14, 14]]
    await asyncio.sleep(0.02)
    assert not drained.done()
    assert not side.batcher.idle
    other.set()
    async with asyncio.timeout(20):
        await drained
        await asyncio.gather(*running)
    assert side.batcher.idle


async def test_an_abort_fails_the_requests_of_every_instance(gate: threading.Event) -> None:
    side = Side([gate] * 2)
    tasks = [*await side.fill(), side.submit(7)]
    await until(lambda: side.batcher.waiting_requests == 1)
    side.batcher.abort()
    for task in tasks:
        with pytest.raises(StoppingError):
            await task


async def test_a_fault_of_the_batcher_ends_all_instances(gate: threading.Event) -> None:
    died: list[str] = []

    def broken(_: BatchResult) -> None:
        raise ZeroDivisionError("a bug")

    side = Side([gate] * 3, on_batch=broken, on_death=died.append)
    running = await side.fill()
    gate.set()
    for task in running:
        with pytest.raises(ModelNotReadyError, match="a bug"):
            await task
    with pytest.raises(ModelNotReadyError):
        await side.submit(1)
    assert len(died) == 1
    async with asyncio.timeout(20):
        await side.batcher.drain()


async def test_a_request_wakes_one_idle_instance() -> None:
    """One of them, however many there are."""
    opened = threading.Event()
    opened.set()
    side = Side([opened] * 8)
    await asyncio.sleep(0)
    async with asyncio.timeout(20):
        for value in range(16):
            await side.submit(value)
    assert sum(sum(sizes) for sizes in side.batches()) == 16
    await side.batcher.drain()


# From the configuration --------------------------------------------------------------------------------------


def config(text: str) -> ModelConfig:
    return text_format.Parse(text, ModelConfig(name="m"))


async def test_a_model_is_loaded_as_often_as_it_asks_each_in_its_thread(
    repository: Path, double_model: WriteModel
) -> None:
    double_model("m", config="max_batch_size: 4 instance_group { count: 2 } instance_group { }")
    engines: list[tuple[FakeEngine, int, int]] = []

    def factory(path: Path, options: EngineOptions) -> FakeEngine:
        engines.append((FakeEngine(), threading.get_ident(), options.intra_op_threads))
        return engines[-1][0]

    models = Models(repository, LoadOptions(factory=factory))
    await models.load_all()
    assert len(engines) == 3
    assert len({thread for _, thread, _ in engines}) == 3
    assert {threads for _, _, threads in engines} == {max(1, engine_threads.available_cpus() // 3)}
    assert all({len(call["x"]) for call in engine.calls} == {1, 2, 4} for engine, _, _ in engines)  # warm, each of them
    served = models.find("m")
    warm = sum(len(engine.calls) for engine, _, _ in engines)
    await asyncio.gather(*(served.batcher.infer(work(value)) for value in range(6)))
    assert served.counters.runs == sum(len(engine.calls) for engine, _, _ in engines) - warm
    assert await models.drain(20)
    assert all(engine.closed for engine, _, _ in engines)


async def test_unloading_closes_every_engine(repository: Path, double_model: WriteModel) -> None:
    double_model("m", config="max_batch_size: 4 instance_group { count: 3 }")
    engines: list[FakeEngine] = []

    def factory(path: Path, options: EngineOptions) -> FakeEngine:
        engines.append(FakeEngine())
        return engines[-1]

    models = Models(repository, LoadOptions(factory=factory))
    await models.load_all()
    await models.unload("m")
    await until(lambda: all(engine.closed for engine in engines))
    assert len(engines) == 3
    assert await models.drain(20)


async def test_an_instance_that_does_not_load_closes_the_others(repository: Path, double_model: WriteModel) -> None:
    double_model("m", config="max_batch_size: 4 instance_group { count: 3 }")
    engines: list[FakeEngine] = []

    def factory(path: Path, options: EngineOptions) -> FakeEngine:
        if len(engines) == 2:
            raise EngineLoadError("no more memory")
        engines.append(FakeEngine())
        return engines[-1]

    models = Models(repository, LoadOptions(factory=factory))
    await models.load_all()
    assert [state.reason for state in models.states()] == ["no more memory"]
    assert [engine.closed for engine in engines] == [True, True]
    assert await models.drain(20)


def test_a_model_alone_in_a_process_is_loaded_once_on_what_it_is_given(
    repository: Path, double_model: WriteModel
) -> None:
    double_model("m", config="max_batch_size: 4 instance_group { count: 99 kind: KIND_GPU }")
    options = EngineOptions(intra_op_threads=1)
    with OpenedModel(repository, "m", options) as model:
        assert model.infer({"x": np.ones((1, 4), np.float32)}, ["y"])["y"].tolist() == [[2, 2, 2, 2]]
    with pytest.raises(ModelConfigError, match="99 instances"):
        load(repository, "m", 1, LoadOptions(engine=options))


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 1),
        ("instance_group { }", 1),
        ("instance_group { count: 3 }", 3),
        ("instance_group { count: 60 } instance_group { count: 4 }", 64),
    ],
)
def test_counts_of_groups_add_up(text: str, count: int) -> None:
    assert instance_count(config(text)) == count


@pytest.mark.parametrize("text", ["instance_group { count: 65 }", "instance_group { count: -1 }"])
def test_a_number_of_instances_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(ModelConfigError, match=r"asks for -?\d+ instances; it may be from 1 to 64"):
        instance_count(config(text))


def test_threads_are_shared_out_unless_the_user_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_threads, "available_cpus", lambda: 7)
    given = EngineOptions()
    assert instance_options(config(""), given, 1) == given
    assert [instance_options(config(""), given, count).intra_op_threads for count in (2, 3, 9)] == [3, 2, 1]
    assert instance_options(config(""), EngineOptions(intra_op_threads=5), 3).intra_op_threads == 5


def test_a_model_may_keep_off_the_gpu() -> None:
    option = ProviderOption(provider=CUDA, key="device_id", value="1")
    given = EngineOptions(providers=(CUDA, CPU), provider_options=(option,), cuda_graph_batches=(1, 4))
    kept = instance_options(config("instance_group { kind: KIND_CPU }"), given, 1)
    assert kept == EngineOptions()
    assert instance_options(config("instance_group { kind: KIND_GPU gpus: 1 }"), given, 1) == given
    given = EngineOptions(providers=(OPENVINO, CPU))
    assert instance_options(config("instance_group { kind: KIND_CPU }"), given, 1) == given


def test_a_missing_gpu_is_refused_unless_fallback_is_allowed(caplog: pytest.LogCaptureFixture) -> None:
    asks = config("instance_group { kind: KIND_GPU }")
    with pytest.raises(ModelConfigError, match=r"asks for KIND_GPU, but .* CPUExecutionProvider; start it with"):
        instance_options(asks, EngineOptions(), 1)
    assert instance_options(asks, EngineOptions(allow_fallback=True), 1).providers == (CPU,)
    assert "KIND_GPU" in caplog.text
    with pytest.raises(ModelConfigError, match="asks for gpus, but the server runs on CPUExecutionProvider"):
        instance_options(config("instance_group { gpus: 0 }"), EngineOptions(), 1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("instance_group { kind: KIND_CPU } instance_group { kind: KIND_GPU }", "mixes KIND_CPU, KIND_GPU"),
        ("instance_group { kind: KIND_MODEL }", "KIND_MODEL; choose"),
        ("instance_group { passive: true }", "a passive group; remove it"),
        ("instance_group { secondary_devices { } }", "secondary_devices; remove it"),
        (
            "instance_group { kind: KIND_GPU gpus: [0, 1] }",
            r"gpus \[0, 1\], but the server computes on GPU 0; name none",
        ),
        ("instance_group { gpus: 2 }", r"gpus \[2\]"),
        ("instance_group { kind: KIND_CPU gpus: 0 }", r"asks for KIND_CPU and for gpus \[0\]"),
    ],
)
def test_unsupported_instance_groups_are_refused(text: str, words: str) -> None:
    with pytest.raises(ModelConfigError, match=words):
        instance_options(config(text), EngineOptions(providers=(CUDA, CPU)), 1)

"""Choice of threads while a model is loaded: what is measured, opened, closed and told."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mnserve.codec.decoding import InferenceWork
from mnserve.engines.base import EngineOptions
from mnserve.engines.fake import FakeEngine
from mnserve.models.load_options import LoadOptions
from mnserve.models.loading import LoadedModel, load
from mnserve.models.registry import Models
from mnserve.models.thread_choice import choosing, trial

Array = np.ndarray[Any, Any]
WriteModel = Callable[..., Path]
CONFIG = "max_batch_size: 4"


class Machine:
    """Two CPUs, and engines whose runs take a given time with one thread, with all, and with all asleep in between.

    Args:
        per_row: The times are those of a row in place of a run.
    """

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        one: float = 0.0,
        wide: float = 0.0,
        asleep: float = 0.0,
        *,
        per_row: bool = False,
    ) -> None:
        monkeypatch.setattr(choosing, "available_cpus", lambda: 2)
        monkeypatch.setattr(trial, "_PAUSE_SECONDS", 0.0)
        self._seconds, self._per_row = (one, wide, asleep), per_row
        self.opened: list[tuple[EngineOptions, FakeEngine]] = []

    def factory(self, path: Path, options: EngineOptions) -> FakeEngine:
        one, wide, asleep = self._seconds
        seconds = one if options.intra_op_threads == 1 else wide if options.session.spinning else asleep

        def answer(feeds: Mapping[str, Array]) -> Mapping[str, Array]:
            time.sleep(seconds * (len(feeds["x"]) if self._per_row else 1))
            return {"y": feeds["x"] * 2}

        self.opened.append((options, FakeEngine(function=answer)))
        return self.opened[-1][1]

    @property
    def open_threads(self) -> list[int]:
        return [options.intra_op_threads for options, engine in self.opened if not engine.closed]

    def options(self, **fields: object) -> LoadOptions:
        return LoadOptions(**{"factory": self.factory, "choice_seconds": 0.4, "thorough_seconds": 0.0, **fields})  # type: ignore[arg-type]


@pytest.fixture
def load_model(repository: Path, double_model: WriteModel) -> Callable[..., LoadedModel]:
    def load_with(options: LoadOptions, config: str = CONFIG) -> LoadedModel:
        if not (repository / "m").exists():
            double_model("m", config=config)
        return load(repository, "m", 1, options)

    return load_with


def test_a_model_that_gains_nothing_has_one_thread_and_nothing_else_stays_open(
    monkeypatch: pytest.MonkeyPatch, load_model: Callable[..., LoadedModel], caplog: pytest.LogCaptureFixture
) -> None:
    machine = Machine(monkeypatch)
    with caplog.at_level("INFO", "mnserve"):
        model = load_model(machine.options())
    assert (machine.open_threads, model.instances, model.wide) == ([1], 1, None)
    assert "model 'm': 1 engine of 1 thread: 2 threads gain too little" in caplog.text
    assert model.findings.threads in caplog.text
    model.close()
    assert machine.open_threads == []


async def test_a_model_that_gains_has_engines_side_by_side_and_one_for_batches_that_come_alone(
    monkeypatch: pytest.MonkeyPatch, repository: Path, double_model: WriteModel
) -> None:
    double_model("m", config=CONFIG)
    machine = Machine(monkeypatch, one=0.002, wide=0.001, per_row=True)
    models = Models(repository, machine.options())
    await models.load_all()
    served = models.find("m")
    assert sorted(machine.open_threads) == [0, 1, 1]
    assert served.model.instances == 2
    costs = served.model.run_costs
    assert costs is not None
    assert "other processes had the CPUs" in served.model.findings.threads, "engines that sleep take none"
    assert costs.rows >= 2
    assert 0.002 <= costs.one < costs.most
    wide = next(engine for options, engine in machine.opened if options.intra_op_threads == 0)
    before = len(wide.calls)
    for _ in range(3):
        await served.batcher.infer(InferenceWork(feeds={"x": np.ones((1, 4), np.float32)}, rows=1, outputs=("y",)))
    assert len(wide.calls) == before + 2  # the first one alone may be the begin of a crowd
    assert await models.drain(20)
    assert machine.open_threads == []


def test_a_model_that_one_run_answers_best_keeps_all_threads_and_lets_them_sleep(
    monkeypatch: pytest.MonkeyPatch, load_model: Callable[..., LoadedModel]
) -> None:
    """Its runs take as long for one row as for four, so that two engines would run twice for a crowd."""
    machine = Machine(monkeypatch, one=0.006, wide=0.003, asleep=0.003)
    model = load_model(machine.options())
    assert (model.instances, model.wide) == (1, None)
    assert "they sleep between runs" in model.findings.threads
    assert [options.session.spinning for options, engine in machine.opened if not engine.closed] == [False]
    model.close()
    machine = Machine(monkeypatch, one=0.006, wide=0.003, asleep=0.005)
    model = load_model(machine.options())
    assert "awake, which is quicker" in model.findings.threads
    assert [options.session.spinning for options, engine in machine.opened if not engine.closed] == [True]
    model.close()


@pytest.mark.parametrize(
    ("config", "engine", "says"),
    [
        (CONFIG, EngineOptions(intra_op_threads=3), "3 threads an engine, as options or config.pbtxt say"),
        (CONFIG, EngineOptions(global_thread_pool=True), "the pool that all models share"),
        (CONFIG, EngineOptions(providers=("CUDAExecutionProvider",)), "as they are given"),
        (f"{CONFIG} instance_group {{ count: 1 }}", EngineOptions(), "as options or config.pbtxt say"),
        (
            f'{CONFIG} parameters {{ key: "intra_op_thread_count" value {{ string_value: "2" }} }}',
            EngineOptions(),
            "2 threads an engine",
        ),
    ],
)
def test_what_somebody_says_counts_and_nothing_is_tried(
    monkeypatch: pytest.MonkeyPatch,
    load_model: Callable[..., LoadedModel],
    config: str,
    engine: EngineOptions,
    says: str,
) -> None:
    machine = Machine(monkeypatch)
    model = load_model(machine.options(engine=engine), config)
    assert len(machine.opened) == 1
    assert says in model.findings.threads
    assert model.run_costs is not None
    model.close()


def test_nothing_is_tried_without_time_or_runs_or_memory_or_a_second_cpu(
    monkeypatch: pytest.MonkeyPatch, load_model: Callable[..., LoadedModel]
) -> None:
    machine = Machine(monkeypatch)
    slow = Machine(monkeypatch, wide=0.03)
    models = [load_model(LoadOptions(factory=machine.factory)), load_model(machine.options(warm_up=False))]
    models.append(load_model(slow.options(choice_seconds=0.05)))
    monkeypatch.setattr(choosing, "available_cpus", lambda: 1)
    models.append(load_model(machine.options()))
    monkeypatch.setattr(choosing, "available_cpus", lambda: 2)
    monkeypatch.setattr(choosing, "_EXTRA_BYTES", 1)
    models.append(load_model(machine.options()))
    assert (len(machine.opened), len(slow.opened)) == (4, 1)
    texts = [model.findings.threads for model in models]
    assert texts[:2] == ["", ""]
    assert "no time to try fewer" in texts[2]
    assert texts[3] == "1 thread, as there is 1 CPU"
    assert "too large to be tried" in texts[4]


def test_a_first_run_that_takes_long_leaves_time_for_a_model_that_is_quick_then(
    monkeypatch: pytest.MonkeyPatch, load_model: Callable[..., LoadedModel]
) -> None:
    monkeypatch.setattr(choosing, "available_cpus", lambda: 2)
    seconds = iter([0.05])

    def answer(feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        time.sleep(next(seconds, 0.0))
        return {"y": feeds["x"] * 2}

    options = LoadOptions(factory=lambda path, options: FakeEngine(function=answer), choice_seconds=0.2)
    model = load_model(options, "max_batch_size: 1")
    assert "1 engine of 1 thread" in model.findings.threads
    model.close()


def test_a_model_whose_answers_depend_on_threads_keeps_them(
    monkeypatch: pytest.MonkeyPatch, load_model: Callable[..., LoadedModel]
) -> None:
    monkeypatch.setattr(choosing, "available_cpus", lambda: 2)
    opened: list[FakeEngine] = []

    def factory(path: Path, options: EngineOptions) -> FakeEngine:
        factor = 3 if options.intra_op_threads == 1 else 2
        opened.append(FakeEngine(function=lambda feeds: {"y": feeds["x"] * factor}))
        return opened[-1]

    model = load_model(LoadOptions(factory=factory, choice_seconds=0.4))
    assert "gives other answers" in model.findings.threads
    assert [engine.closed for engine in opened] == [False, True]

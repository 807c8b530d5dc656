"""Warm-up: what is run, how far it grows, and what a failure costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mnserve.codec.datatypes import DATATYPES
from mnserve.codec.signature import RequestSignature, TensorRule
from mnserve.engines.base import EngineOptions, TensorSpec
from mnserve.engines.fake import FakeEngine
from mnserve.errors import EngineRunError
from mnserve.models.joined_rows import Verdict
from mnserve.models.load_options import LoadOptions
from mnserve.models.loading import LoadedModel, load
from mnserve.models.made_up_inputs import made_up_inputs
from mnserve.models.trial_runs import TrialLimits
from mnserve.models.warm_up import warm_up
from mnserve.models.warm_up_plan import WarmUpPlan

WriteModel = Callable[..., Path]
Array = np.ndarray[Any, Any]
Feeds = Mapping[str, Array]


def rules(batch: int, dims: tuple[int, ...] = (4,), datatype: str = "FP32") -> RequestSignature:
    rule = TensorRule(name="x", datatype=DATATYPES[datatype], dims=dims)
    output = TensorRule(name="y", datatype=DATATYPES[datatype], dims=dims)
    return RequestSignature(model="m", max_batch_size=batch, inputs=(rule,), outputs=(output,))


def sizes(engine: FakeEngine) -> list[int]:
    """Batch sizes, each once, in the order in which they came."""
    return list(dict.fromkeys(len(call["x"]) for call in engine.calls))


def loaded(repository: Path, engine: FakeEngine, **fields: Any) -> LoadedModel:
    return load(repository, "m", 1, LoadOptions(factory=lambda path, options: engine, **fields))


def test_batches_grow_to_the_configured_maximum(repository: Path, double_model: WriteModel) -> None:
    double_model("m", config="max_batch_size: 40")
    engine = FakeEngine()
    model = loaded(repository, engine)
    assert sizes(engine) == [1, 2, 8, 16, 32, 40]
    assert all(call["x"].any() for call in engine.calls), "zeros would divide and index by nothing"
    assert model.findings.batching.startswith("batches of up to 40 rows, as config.pbtxt says; joined rows gave")


def test_what_is_on_request_is_run_with_and_without(repository: Path, double_model: WriteModel) -> None:
    """Either may run on a file of its own, which the first request would otherwise find cold."""
    asked: set[tuple[int, tuple[str, ...]]] = set()

    class Recording(FakeEngine):
        def run(self, feeds: Feeds, outputs: Sequence[str]) -> list[Any]:
            asked.add((len(feeds["x"]), tuple(outputs)))
            return super().run(feeds, outputs)

    engine = Recording(
        outputs=[TensorSpec(name=name, datatype="FP32", shape=(-1, -1)) for name in ("y", "why")],
        function=lambda feeds: {"y": feeds["x"], "why": feeds["x"]},
    )
    on_request = r'parameters { key: "mn.on_request" value { string_value: "[\"why\"]" } }'
    double_model("m", config=f"max_batch_size: 8 {on_request}")
    loaded(repository, engine)
    assert asked == {(rows, outputs) for rows in (1, 2, 8) for outputs in (("y",), ("y", "why"))}


def test_a_size_that_nobody_configured_is_run_only_where_it_costs_little() -> None:
    cheap = FakeEngine()
    dear = FakeEngine(function=lambda feeds: {"y": (time.sleep(0.005 * len(feeds["x"])), feeds["x"])[1]})
    assert warm_up(cheap, rules(32), WarmUpPlan(grow=False)).joined.verdict is Verdict.EQUAL
    assert warm_up(dear, rules(32), WarmUpPlan(grow=False)).joined.verdict is Verdict.EQUAL
    assert sizes(cheap) == [1, 2, 8, 3, 5, 7, 32]
    assert sizes(dear) == [1, 2, 8]


def test_further_instances_run_no_size_that_nobody_configured(repository: Path, double_model: WriteModel) -> None:
    double_model("m", config="instance_group { count: 2 }")
    engines: list[FakeEngine] = []

    def factory(path: Path, options: EngineOptions) -> FakeEngine:
        run = lambda feeds: {"y": (time.sleep(0.005 * len(feeds["x"])), feeds["x"])[1]}  # noqa: E731
        engines.append(FakeEngine(function=run))
        return engines[-1]

    model = load(repository, "m", 1, LoadOptions(factory=factory))
    model.another()
    assert model.signature.max_batch_size == 32
    assert [max(sizes(engine)) for engine in engines] == [8, 8]


def test_slow_rows_are_not_run_again_and_again() -> None:
    engine = FakeEngine(function=lambda feeds: {"y": (time.sleep(0.05 * len(feeds["x"])), feeds["x"])[1]})
    limits = TrialLimits(seconds=0.6)
    result = warm_up(engine, rules(32), WarmUpPlan(grow=True, limits=limits))
    assert sizes(engine) == [1, 2], "8 rows would be late"
    assert result.joined.verdict is Verdict.EQUAL
    very_slow = FakeEngine(seconds=0.3)
    result = warm_up(very_slow, rules(32), WarmUpPlan(grow=False, limits=limits))
    assert len(very_slow.calls) == 1
    assert result.joined.verdict is Verdict.UNKNOWN
    assert "the time for trying is 0.6 s" in result.joined.reason


def test_memory_bounds_the_growth(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Each row adds 100 MiB to the process, and 1.5 GiB are free."""
    seen = [0]

    def run(feeds: Feeds) -> Feeds:
        seen[0] = max(seen[0], len(feeds["x"]))
        return {"y": feeds["x"]}

    monkeypatch.setattr("mnserve.models.trial_runs.resident_bytes", lambda: seen[0] * 100 * 2**20)
    monkeypatch.setattr("mnserve.models.trial_runs.available_bytes", lambda: 3 * 2**29)
    engine = FakeEngine(function=run)
    warm_up(engine, rules(32), WarmUpPlan(grow=True))
    assert max(sizes(engine)) == 2
    assert "no warm-up batch of 16 rows: a row takes about 100 MiB, and 1536 MiB of memory are free" in caplog.text


def test_batches_that_nobody_asked_for_take_little_memory(
    repository: Path, double_model: WriteModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each row adds 100 MiB to the process: two are joined, and not eight."""
    seen = [0]

    def run(feeds: Feeds) -> Feeds:
        seen[0] = max(seen[0], len(feeds["x"]))
        return {"y": feeds["x"]}

    monkeypatch.setattr("mnserve.models.trial_runs.resident_bytes", lambda: seen[0] * 100 * 2**20)
    monkeypatch.setattr("mnserve.models.trial_runs.available_bytes", lambda: 2**36)
    double_model("m")
    engine = FakeEngine(function=run)
    model = loaded(repository, engine)
    assert max(sizes(engine)) == 2
    assert model.signature.max_batch_size == 32


def test_large_inputs_are_not_made(repository: Path, double_model: WriteModel) -> None:
    double_model("m", config="max_batch_size: 8")
    engine = FakeEngine(
        inputs=[TensorSpec(name="x", datatype="FP32", shape=(-1, 2**28))],
        outputs=[TensorSpec(name="y", datatype="FP32", shape=(-1, -1))],
    )
    model = loaded(repository, engine)
    assert engine.calls == []
    assert model.health.probe is None
    assert "its inputs alone have 1073741824 bytes" in model.findings.warm_up


def test_a_model_that_takes_no_made_up_input_is_served(
    repository: Path, double_model: WriteModel, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(feeds: Feeds) -> Feeds:
        raise EngineRunError("not these")

    double_model("m")
    engine = FakeEngine(function=refuse)
    model = loaded(repository, engine)
    assert model.signature.max_batch_size == 0
    assert model.findings.batching == "one request at a time: not these"
    assert model.findings.warm_up == "not run: not these"
    assert model.health.probe is None
    assert "model 'm': not warmed up: not these" in caplog.text
    assert not engine.closed


def test_no_memory_is_a_warning(repository: Path, double_model: WriteModel, caplog: pytest.LogCaptureFixture) -> None:
    def exhaust(feeds: Feeds) -> Feeds:
        raise MemoryError

    double_model("m", config="max_batch_size: 4")
    assert loaded(repository, FakeEngine(function=exhaust)).signature.max_batch_size == 4
    assert "not warmed up: there is no memory for it" in caplog.text


@pytest.mark.parametrize(
    ("more", "fields"),
    [("", {"warm_up": False}), ('parameters { key: "mn.warm_up" value { string_value: "false" } }', {})],
)
def test_a_warm_up_can_be_switched_off(
    repository: Path, double_model: WriteModel, more: str, fields: dict[str, bool]
) -> None:
    double_model("m", config=f"max_batch_size: 8 {more}")
    engine = FakeEngine()
    assert loaded(repository, engine, **fields).signature.max_batch_size == 8
    (repository / "m" / "config.pbtxt").write_text(more)
    model = loaded(repository, engine, **fields)
    assert model.signature.max_batch_size == 0
    assert "one request at a time: nothing was run" in model.findings.batching
    assert engine.calls == []


def test_the_probe_is_what_the_model_has_answered(repository: Path, double_model: WriteModel) -> None:
    def divide(feeds: Feeds) -> Feeds:
        if not feeds["x"].all():
            raise EngineRunError("division by zero")
        return {"y": feeds["x"]}

    double_model("m")
    probe = loaded(repository, FakeEngine(function=divide)).health.probe
    assert probe is not None
    assert probe().feeds["x"].all()


@pytest.mark.parametrize("name", DATATYPES)
def test_rows_are_made_for_every_element_type(name: str) -> None:
    for inputs in made_up_inputs(rules(4, (-1, 3), name)):
        first, second = inputs.row(0)["x"], inputs.row(1)["x"]
        assert first.dtype == DATATYPES[name].dtype
        assert first.shape == (1, inputs.open_size, 3)
        assert inputs.style.value == "zeros" or first.size < 16 or not np.array_equal(first, second)
    scalar = next(made_up_inputs(rules(0, (), name))).row(0)["x"]
    assert isinstance(scalar, np.ndarray)
    assert scalar.shape == ()


def test_many_open_dimensions_take_no_endless_memory() -> None:
    assert all(inputs.nbytes <= 2**26 for inputs in made_up_inputs(rules(4, (-1,) * 6)))

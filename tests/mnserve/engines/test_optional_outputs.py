"""A model in two files: the smaller one runs wherever it gives all that is wanted."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mnserve.engines.base import Engine, EngineOptions, TensorSpec
from mnserve.engines.optional_outputs import CoreFirstEngine
from mnserve.engines.sessions import runs_on_cpus_alone
from mnserve.errors import EngineLoadError, EngineRunError
from mnserve.models.loading import LoadOptions, _load_best_files
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.repository.model_files import ModelFiles

X = TensorSpec(name="x", datatype="FP32", shape=(-1, 2))
Y, Z = (TensorSpec(name=name, datatype="FP32", shape=(-1, 2)) for name in "yz")


class Part:
    """Remembers that it ran."""

    metadata: Mapping[str, str] = {"a": "b"}

    def __init__(self, outputs: tuple[TensorSpec, ...], inputs: tuple[TensorSpec, ...] = (X,)) -> None:
        self.inputs, self.outputs = inputs, outputs
        self.runs: list[tuple[str, ...]] = []
        self.closed = False

    def run(self, feeds: Mapping[str, Any], outputs: Sequence[str]) -> list[Any]:
        self.runs.append(tuple(outputs))
        return [feeds["x"] for _ in outputs]

    def close(self) -> None:
        self.closed = True


def test_the_smaller_part_runs_where_it_is_enough() -> None:
    whole, core = Part((Y, Z)), Part((Y,))
    engine = CoreFirstEngine(whole, core)
    feeds = {"x": np.zeros((1, 2), np.float32)}
    for wanted in (["y"], ["z"], ["y", "z"], ["y"]):
        assert len(engine.run(feeds, wanted)) == len(wanted)
    assert core.runs == [("y",), ("y",)]
    assert whole.runs == [("z",), ("y", "z")]
    assert (engine.inputs, engine.outputs, engine.metadata) == ((X,), (Y, Z), {"a": "b"})
    engine.close()
    assert whole.closed
    assert core.closed


@pytest.mark.parametrize("core", [Part((Z,)), Part((Y,), inputs=(Z,))])
def test_parts_that_do_not_belong_together_are_refused(core: Part) -> None:
    with pytest.raises(EngineLoadError, match=r"core\.onnx does not take and give"):
        CoreFirstEngine(Part((Y,)), core)


def loaded(folder: Path, files: Sequence[str], providers: tuple[str, ...]) -> tuple[Engine, str, list[Part]]:
    """Files of a version, with the file that runs and the parts that were opened."""
    parts = {"model.onnx": Part((Y, Z)), "core.onnx": Part((Y,)), "cpu.onnx": Part((Y,))}
    opened: list[Part] = []

    def factory(path: Path, options: EngineOptions) -> Part:
        opened.append(parts[path.name])
        return parts[path.name]

    options = LoadOptions(engine=EngineOptions(providers=providers), factory=factory, warm_up=False)
    model = _load_best_files(published(folder, files), options)
    return model.engine, model.file, opened


def published(folder: Path, names: Sequence[str], *, on_request: str = "") -> ModelFiles:
    """A version whose export.json lists ``names``; the files lie there either way."""
    for name in ("model.onnx", "core.onnx", "cpu.onnx"):
        (folder / name).write_text("")
    export = {"sha256": dict.fromkeys(names, "digest")}
    config = ModelConfig(name="m", max_batch_size=8)
    if on_request:
        config.parameters["mn.on_request"].string_value = f'["{on_request}"]'
    return ModelFiles(
        name="m", version=1, config=config, version_folder=folder, model_path=folder / "model.onnx", export=export
    )


CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"


@pytest.mark.parametrize(
    ("files", "providers", "core"),
    [
        (["model.onnx"], (CPU,), None),
        (["model.onnx", "core.onnx"], (CPU,), "core.onnx"),
        (["model.onnx", "core.onnx", "cpu.onnx"], (CPU,), "cpu.onnx"),
        (["model.onnx", "core.onnx", "cpu.onnx"], (CUDA, CPU), "core.onnx"),
        (["model.onnx", "cpu.onnx"], (CUDA, CPU), None),
    ],
)
def test_the_file_for_cpus_runs_where_there_is_nothing_else(
    tmp_path: Path, files: list[str], providers: tuple[str, ...], core: str | None
) -> None:
    engine, file, opened = loaded(tmp_path, files, providers)
    engine.run({"x": np.zeros((1, 2), np.float32)}, ["y"])
    assert file == (core or "model.onnx")
    assert len(opened) == (1 if core is None else 2)
    assert opened[-1].runs == [("y",)]
    if core is None:
        assert engine is opened[0]


def test_files_without_a_published_hash_are_ignored(tmp_path: Path) -> None:
    files = dataclasses.replace(published(tmp_path, []), export=None)
    whole = Part((Y,))
    parts = {"model.onnx": whole}
    model = _load_best_files(files, LoadOptions(factory=lambda path, options: parts[path.name], warm_up=False))
    assert (model.engine, model.file) == (whole, "model.onnx")


def test_a_file_with_all_outputs_runs_alone(tmp_path: Path) -> None:
    whole, core = Part((Y,)), Part((Y,))
    parts = {"model.onnx": whole, "cpu.onnx": core}
    files = published(tmp_path, ["model.onnx", "cpu.onnx"])
    model = _load_best_files(files, LoadOptions(factory=lambda path, options: parts[path.name], warm_up=False))
    assert (model.engine, model.file) == (core, "cpu.onnx")
    assert whole.closed
    assert not core.closed


@pytest.mark.parametrize("damaged", [False, True])
def test_a_part_that_cannot_be_loaded_closes_the_others(tmp_path: Path, damaged: bool) -> None:
    opened: list[Part] = []

    def factory(path: Path, options: EngineOptions) -> Part:
        if path.name == "core.onnx" and damaged:
            raise EngineLoadError("damaged")
        opened.append(Part((Z,) if path.name == "core.onnx" else (Y,)))
        return opened[-1]

    model = _load_best_files(published(tmp_path, ["model.onnx", "core.onnx"]), LoadOptions(factory=factory))
    assert model.file == "model.onnx"
    assert [part.closed for part in opened] == ([True, False] if damaged else [True, True, False])


@pytest.mark.parametrize(("others", "runs"), [(["core.onnx"], "core.onnx"), ([], "model.onnx")])
def test_a_file_for_cpus_that_this_runtime_cannot_load_is_done_without(
    tmp_path: Path, others: list[str], runs: str, caplog: pytest.LogCaptureFixture
) -> None:
    def factory(path: Path, options: EngineOptions) -> Part:
        if path.name == "cpu.onnx":
            raise EngineLoadError("com.microsoft.nchwc:Conv(-1) is not a registered function/op")
        return Part((Y,) if path.name == "core.onnx" else (Y, Z))

    files = published(tmp_path, ["model.onnx", "cpu.onnx", *others])
    model = _load_best_files(files, LoadOptions(factory=factory))
    assert model.file == runs
    assert [spec.name for spec in model.engine.outputs] == ["y", "z"]
    assert "model 'm' version 1 runs without cpu.onnx: com.microsoft.nchwc" in caplog.text


class Failing(Part):
    """Loads, and fails when it is run."""

    def run(self, feeds: Mapping[str, Any], outputs: Sequence[str]) -> list[Any]:
        raise EngineRunError("Invalid argument: X.ndim != W.ndim")


@pytest.mark.parametrize(
    ("bad", "told"),
    [(Failing((Y,)), "X.ndim != W.ndim"), (Part((Y,), inputs=(Z,)), "does not take and give what the model beside")],
)
def test_a_file_for_cpus_that_cannot_be_run_or_is_of_another_model_is_done_without(
    tmp_path: Path, bad: Part, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    opened: list[Part] = []

    def factory(path: Path, options: EngineOptions) -> Part:
        opened.append(bad if path.name == "cpu.onnx" else Part((Y,) if path.name == "core.onnx" else (Y, Z)))
        return opened[-1]

    files = published(tmp_path, ["model.onnx", "core.onnx", "cpu.onnx"], on_request="z")
    model = _load_best_files(files, LoadOptions(factory=factory))
    assert model.file == "core.onnx"
    assert "model 'm' version 1 runs without cpu.onnx: " in caplog.text
    assert told in caplog.text
    assert [part.closed for part in opened] == [True, True, False, False]


def test_a_smaller_file_that_cannot_be_run_is_done_without(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def factory(path: Path, options: EngineOptions) -> Part:
        return Failing((Y,)) if path.name == "core.onnx" else Part((Y, Z))

    files = published(tmp_path, ["model.onnx", "core.onnx"], on_request="z")
    assert _load_best_files(files, LoadOptions(factory=factory)).file == "model.onnx"
    assert "runs without core.onnx" in caplog.text


@pytest.mark.parametrize(
    ("providers", "allow_fallback", "alone"),
    [
        ((CPU,), False, True),
        ((CPU, CPU), False, True),
        (("AzureExecutionProvider", CPU), False, True),
        ((CUDA, CPU), False, False),
        (("NoSuchExecutionProvider", CPU), True, True),
        (("NoSuchExecutionProvider",), True, False),
    ],
)
def test_remote_and_missing_providers_leave_cpus_alone(
    providers: tuple[str, ...], allow_fallback: bool, alone: bool
) -> None:
    assert runs_on_cpus_alone(EngineOptions(providers=providers, allow_fallback=allow_fallback)) is alone

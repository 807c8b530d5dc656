"""``cpu.onnx``: published where it answers as the model does, left out where not, and run by mnserve."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mnexport.cpu_file.stage
from mnexport.blocked.assemble import BlockedReport, write_blocked
from mnexport.blocked.layout import block_size
from mnexport.commands.cli import main
from mnexport.cpu_file.stage import lower_cpu_file
from mnexport.model_files import ModelFile
from mnexport.options import ExportOptions
from mnexport.pipeline import export
from mnexport.precision.accuracy import Precision
from mnexport.repository.target import Target
from mnexport.signature import ExportSignature, ExportTensor, RowInterface, table_signature
from mnserve.engines.base import EngineOptions
from mnserve.engines.onnxruntime import OnnxRuntimeEngine
from mnserve.models.opened_model import OpenedModel
from mntrain.config import load_experiment
from mntrain.training.fit import fit
from mntrain.training.run_folder import FitOptions

BLOCK = block_size()
needs_layout = pytest.mark.skipif(BLOCK is None, reason="ONNX Runtime has no blocked layout on this processor")


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Artifact of Meta-Neighborhoods with iFiLM on digits."""
    folder = tmp_path_factory.mktemp("runs")
    words = ["--family", "meta_neighborhoods", "--name", "m", "--backbone.ifilm", "true", "--backbone.width", "0.5"]
    words += ["--training.epochs", "1", "--meta_neighborhoods.entries", "40", "--meta_neighborhoods.init", "paper"]
    fit(load_experiment("digits", words), FitOptions(runs=folder, quiet=True))
    return folder / "m" / "artifact"


def options(artifact: Path, repository: Path, **changes: Any) -> ExportOptions:
    return ExportOptions(artifact=artifact, target=Target(repository=repository, name="m"), **changes)


def record(repository: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((repository / "m" / "1" / "export.json").read_text())
    return found


@needs_layout
@pytest.mark.parametrize(("form", "explain"), [("auto", 0), ("factored", 0), ("factored", 3)])
def test_ifilm_stays_in_the_layout_of_the_processor(artifact: Path, repository: Path, form: str, explain: int) -> None:
    report = export(options(artifact, repository, form=form, explain=explain))
    files = {item.name for item in (repository / "m" / "1").iterdir()}
    assert {"model.onnx", "cpu.onnx"} | ({"core.onnx"} if explain else set()) == files - {"export.json"}
    assert record(repository)["cpu"]["blocked"] == {"block": BLOCK, "maps": 4}
    assert record(repository)["cpu"]["unblocked"] is None
    assert "cpu.onnx" in record(repository)["sha256"]
    assert report.cpu is not None
    assert report.cpu.describe() == f"cpu.onnx: iFiLM of 4 layers stays in the convolutions' blocks of {BLOCK} channels"
    assert [item.what for item in report.parity.comparisons].count("onnxruntime, cpu.onnx") > 0
    images = np.random.default_rng(0).integers(0, 256, (11, 1, 8, 8), np.uint8)
    whole = OnnxRuntimeEngine(repository / "m" / "1" / "model.onnx", EngineOptions())
    with OpenedModel(repository, "m") as model:
        assert model.file == "cpu.onnx"
        for count in (1, 8, 11):
            feeds = {"image": images[:count]}
            found = model.infer(feeds, ["probabilities"])["probabilities"]
            np.testing.assert_allclose(found, whole.run(feeds, ["probabilities"])[0], atol=1e-3, rtol=0)


@needs_layout
@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_other_dtypes_have_layouts_of_their_own(artifact: Path, repository: Path, dtype: Any) -> None:
    export(options(artifact, repository, form="factored", precision=Precision(dtype=dtype, max_accuracy_drop=1.0)))
    assert not (repository / "m" / "1" / "cpu.onnx").exists()
    assert record(repository)["cpu"] is None


def negated(source: Path, target: Path) -> BlockedReport | None:
    found = write_blocked(source, target)
    model = onnx.load(str(target))
    for item in model.graph.initializer:
        if item.name.startswith("classifier."):
            item.CopyFrom(numpy_helper.from_array(-numpy_helper.to_array(item), item.name))
    onnx.save(model, str(target))
    return found


def unloadable(source: Path, target: Path) -> BlockedReport | None:
    found = write_blocked(source, target)
    model = onnx.load(str(target))
    model.graph.node[0].domain = "com.unknown"
    onnx.save(model, str(target))
    return found


def partial(source: Path, target: Path) -> BlockedReport | None:
    found = write_blocked(source, target)
    return None if found is None else replace(found, maps=found.maps - 1)


def broken(source: Path, target: Path) -> BlockedReport | None:
    raise KeyError("a bug")


@needs_layout
@pytest.mark.parametrize(
    ("write", "words"),
    [(negated, "answers otherwise than the ordinary graph"), (unloadable, "com.unknown"), (broken, "a bug")],
)
@pytest.mark.parametrize("form", ["factored", "low_rank"])
def test_a_failure_of_the_layout_costs_neither_the_model_nor_its_keys(
    artifact: Path,
    repository: Path,
    monkeypatch: pytest.MonkeyPatch,
    write: Callable[[Path, Path], BlockedReport | None],
    words: str,
    form: str,
) -> None:
    monkeypatch.setattr(mnexport.cpu_file.stage, "write_blocked", write)
    report = export(options(artifact, repository, form=form))
    assert report.parity.passed
    assert (repository / "m" / "1" / "cpu.onnx").exists() is (form == "low_rank")
    assert words in record(repository)["cpu"]["unblocked"]
    assert report.cpu is not None
    assert "iFiLM is in the ordinary layout, which CPUs are slower in: " in str(report.cpu.describe())


@needs_layout
def test_maps_that_leave_the_layout_are_reported(
    artifact: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mnexport.cpu_file.stage, "write_blocked", lambda source, target: None)
    export(options(artifact, repository, form="factored"))
    assert "its maps would leave that layout all the same" in record(repository)["cpu"]["unblocked"]


@needs_layout
def test_affine_maps_that_are_not_recognised_are_reported(
    artifact: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mnexport.cpu_file.stage, "write_blocked", partial)
    report = export(options(artifact, repository, form="factored"))
    told = "cpu.onnx keeps 3 of 4 affine maps in the blocked layout; the others are not recognised"
    assert record(repository)["cpu"]["unblocked"] == told
    assert record(repository)["cpu"]["blocked"] == {"block": BLOCK, "maps": 3}
    assert report.cpu is not None
    assert report.cpu.describe() == told


def test_a_file_that_int8_spoils_is_left_out(
    runs: Path, repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = mnexport.cpu_file.stage.onnxruntime_runner

    def spoilt(path: Path, signature: ExportSignature) -> Any:
        assert path.name == "cpu.onnx"
        runner = real(path, signature)
        return lambda images: {"probabilities": runner(images)["probabilities"][:, ::-1]}

    monkeypatch.setattr(mnexport.cpu_file.stage, "onnxruntime_runner", spoilt)
    words = [str(runs / "meta_neighborhoods" / "artifact"), str(repository / "m"), "--dtype", "int8"]
    assert main([*words, "--max-accuracy-drop", "0.02"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "no cpu.onnx: in int8 it has an accuracy of" in out
    published = record(repository)
    assert set(published["sha256"]) == {"model.onnx"}
    assert published["cpu"]["accuracy"] is None
    assert "--max-accuracy-drop allows 2.00%" in published["cpu"]["left_out"]
    assert published["adaptation"]["integer_keys"] is None


def test_a_file_that_cannot_be_quantised_is_removed(tmp_path: Path) -> None:
    file = tmp_path / "cpu.onnx"
    inputs, outputs = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 2]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "without convolutions", [inputs], [outputs])
    onnx.save(helper.make_model(graph), file)
    rows = table_signature(RowInterface(columns=("a", "b"), targets=("y",)))
    signature = replace(rows, inputs=(ExportTensor(name="x", datatype="FP32", shape=(2,)),))
    report = lower_cpu_file(
        ModelFile(path=file, signature=signature),
        np.zeros((4, 2), np.float32),
        lambda engine, answers: pytest.fail("measured"),
    )
    assert report.left_out is not None
    assert "nothing to quantise" in report.left_out
    assert not file.exists()

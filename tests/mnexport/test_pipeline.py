"""Pipeline from artifact to model repository: complete models are published, and nothing half-done."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from google.protobuf import text_format
from safetensors.numpy import load_file, save_file
from tritonclient.grpc import model_config_pb2

import mnexport.export_source
import mnexport.pipeline
import mnexport.repository.publishing
from mnexport.errors import FormError, ParityError, PublishError, ScratchError, UsageError
from mnexport.forms.dispatch import static_form
from mnexport.forms.plan import FormPlan
from mnexport.graph import GraphOptions
from mnexport.options import ExportOptions
from mnexport.parity.tolerance import Tolerance
from mnexport.pipeline import export
from mnexport.repository.target import Target, sha256
from mntrain.artifact import load_artifact
from mntrain.errors import ArtifactError, DataError


@pytest.fixture
def artifact(runs: Path) -> Path:
    return runs / "meta_neighborhoods" / "artifact"


def options(artifact: Path, repository: Path, name: str = "m", **changes: Any) -> ExportOptions:
    target = {key: changes.pop(key) for key in ("version", "overwrite") if key in changes}
    if not changes.get("vanilla"):  # one trace instead of two, where the form does not matter
        changes.setdefault("form", "factored")
    return ExportOptions(artifact=artifact, target=Target(repository=repository, name=name, **target), **changes)


def everything_below(folder: Path) -> set[str]:
    return {str(item.relative_to(folder)) for item in folder.rglob("*")}


def test_the_published_model_is_complete_and_describes_itself(artifact: Path, repository: Path) -> None:
    report = export(options(artifact, repository, form="auto", max_batch_size=16))
    assert everything_below(repository) == {
        "m", "m/README.md", "m/config.pbtxt", "m/labels.txt", "m/1",
        "m/1/model.onnx", "m/1/cpu.onnx", "m/1/export.json",
    }  # fmt: skip
    record = json.loads((repository / "m/1/export.json").read_text())
    assert record["sha256"]["model.onnx"] == sha256(report.path)
    assert record["artifact"]["sha256"]["model.safetensors"] == sha256(artifact / "model.safetensors")
    assert (record["max_batch_size"], record["cpu"]) == (
        16,
        {"accuracy": None, "blocked": None, "unblocked": None, "left_out": None, "scattered": 0},
    )
    assert (record["family"], record["form"], record["name"], record["version"]) == (
        "meta_neighborhoods", "low_rank", "m", 1,
    )  # fmt: skip
    adaptation = record["adaptation"]
    assert (adaptation["kind"], adaptation["tolerance"]) == ("norm", 1e-3)
    assert 0 <= adaptation["calibration"]["held_out_error"] <= 5e-4
    assert (adaptation["calibration"]["fitted"], adaptation["calibration"]["held_out"]) == (128, 128)
    assert adaptation["costs"]["low_rank"]["multiplications"] < adaptation["costs"]["exact"]["multiplications"]
    assert record["inputs"] == [{"name": "image", "datatype": "UINT8", "shape": [-1, 1, 8, 8]}]
    assert [item["batch"] for item in record["parity"]["comparisons"]] == [1, 2, 16] * 3
    assert all(item["argmax_differences"] == 0 for item in record["parity"]["comparisons"])
    model = onnx.load(report.path)
    metadata = {item.key: item.value for item in model.metadata_props}
    assert json.loads(metadata["mn.labels"]) == [str(digit) for digit in range(10)]
    assert metadata["mn.family"] == "meta_neighborhoods"
    assert (repository / "m/labels.txt").read_text().split() == [str(digit) for digit in range(10)]
    for file in filter(Path.is_file, (repository / "m").rglob("*")):
        content = file.read_bytes()
        told = [place for place in (artifact.parents[1], Path(torch.__file__).parents[1]) if bytes(place) in content]
        assert told == [], f"{file.name} tells of {told}"


def test_the_configuration_is_what_triton_reads(artifact: Path, repository: Path) -> None:
    export(options(artifact, repository, max_batch_size=16))
    config = text_format.Parse((repository / "m/config.pbtxt").read_text(), model_config_pb2.ModelConfig())
    assert (config.name, config.backend, config.max_batch_size) == ("m", "onnxruntime", 16)
    assert [(item.name, item.data_type, list(item.dims)) for item in config.input] == [
        ("image", model_config_pb2.TYPE_UINT8, [1, 8, 8])
    ]
    assert [(item.name, list(item.dims), item.label_filename) for item in config.output] == [
        ("logits", [10], ""), ("probabilities", [10], "labels.txt"),
    ]  # fmt: skip
    assert config.HasField("dynamic_batching")
    assert json.loads(config.parameters["mn.input"].string_value) == {
        "layout": "NCHW", "color": "L", "scale": "0..255",
    }  # fmt: skip


def test_labels_of_any_script_survive(artifact: Path, repository: Path, tmp_path: Path) -> None:
    labels = ['say "hi"', "back\\slash", "naïve 猫 🐈", "two\nlines", *"456789"]
    copied = Path(shutil.copytree(artifact, tmp_path / "artifact"))
    values = json.loads((copied / "config.json").read_text()) | {"labels": labels}
    (copied / "config.json").write_text(json.dumps(values))
    export(options(copied, repository))
    config = text_format.Parse((repository / "m/config.pbtxt").read_text(), model_config_pb2.ModelConfig())
    assert json.loads(config.parameters["mn.labels"].string_value) == labels
    assert len((repository / "m/labels.txt").read_text().splitlines()) == 10


@pytest.mark.parametrize(("form", "opset"), [("explicit", 18), ("factored", 18), ("factored", 19)])
def test_every_opset_and_form_is_exported(artifact: Path, repository: Path, form: str, opset: int) -> None:
    report = export(options(artifact, repository, form=form, graph=GraphOptions(opset=opset)))
    assert (report.form, report.graph.opset) == (form, opset)


def test_vanilla_exports_the_same_model_without_adaptation(artifact: Path, repository: Path) -> None:
    report = export(options(artifact, repository, vanilla=True))
    loaded = load_artifact(artifact)
    expected = loaded.model(loaded.preprocessing(torch.from_numpy(loaded.samples.images))).unadapted_logits.numpy()
    found = onnxruntime.InferenceSession(str(report.path)).run(["logits"], {"image": loaded.samples.images})[0]
    np.testing.assert_allclose(found, expected, atol=1e-4, rtol=0)
    assert report.family == "vanilla"


def test_parity_runs_over_the_whole_test_split(artifact: Path, repository: Path) -> None:
    report = export(options(artifact, repository, parity_images="test"))
    assert report.parity.comparisons[-1].examples == 359


def test_a_further_version_takes_the_next_number(artifact: Path, repository: Path) -> None:
    assert [export(options(artifact, repository)).path.parent.name for _ in range(2)] == ["1", "2"]
    assert export(options(artifact, repository, version=7)).path.parent.name == "7"
    with pytest.raises(PublishError, match=r"version 7 already.*--overwrite"):
        export(options(artifact, repository, version=7))
    before = (repository / "m/7/export.json").read_text()
    export(options(artifact, repository, version=7, overwrite=True, form="explicit"))
    assert json.loads((repository / "m/7/export.json").read_text())["form"] == "explicit"
    assert json.loads(before)["form"] == "factored"


def test_versions_of_one_model_must_take_the_same_tensors(artifact: Path, repository: Path) -> None:
    export(options(artifact, repository))
    before = everything_below(repository)
    with pytest.raises(PublishError, match=r"UINT8.*FP32.*another name"):
        export(options(artifact, repository, graph=GraphOptions(input_type="float32")))
    assert everything_below(repository) == before


def test_an_export_that_the_repository_cannot_take_is_refused_before_the_work(artifact: Path, repository: Path) -> None:
    (repository / "m").write_text("")
    for folder in (repository, Path("/proc")):
        told: list[str] = []
        with pytest.raises(PublishError, match=r"is a file|cannot be written"):
            export(options(artifact, folder), told.append)
        assert told == [f"reading {artifact}"]


def test_the_version_is_chosen_when_it_is_published(
    artifact: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = mnexport.pipeline.check_parity

    def overtaken(*fields: Any, **named: Any) -> Any:
        monkeypatch.setattr(mnexport.pipeline, "check_parity", run)
        export(options(artifact, repository, form="explicit"))
        return run(*fields, **named)

    monkeypatch.setattr(mnexport.pipeline, "check_parity", overtaken)
    report = export(options(artifact, repository))
    assert report.path == repository / "m/2/model.onnx"
    records = [json.loads((repository / f"m/{number}/export.json").read_text()) for number in (1, 2)]
    assert [(record["version"], record["form"]) for record in records] == [(1, "explicit"), (2, "factored")]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("metrics", {"a": float("nan")}),
        ("metrics", {"a": [float("inf")]}),
        ("versions", {"torch": "\ud800"}),
        ("labels", ("\ud800", *"123456789")),
    ],
)
def test_a_value_that_json_cannot_hold_is_refused(
    artifact: Path, repository: Path, field: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoilt = load_artifact(artifact)
    object.__setattr__(spoilt.config, field, value)  # past whatever the artifact checks itself
    monkeypatch.setattr(mnexport.export_source, "load_artifact", lambda path: spoilt)
    with pytest.raises(ArtifactError, match=r"config\.json holds a number or a text"):
        export(options(artifact, repository))
    assert everything_below(repository) == set()


def test_a_model_of_another_origin_is_not_touched(artifact: Path, repository: Path) -> None:
    (repository / "m/1").mkdir(parents=True)
    (repository / "m/1/model.onnx").write_bytes(b"theirs")
    with pytest.raises(PublishError, match="did not write"):
        export(options(artifact, repository))
    assert everything_below(repository) == {"m", "m/1", "m/1/model.onnx"}


@pytest.fixture
def wrong_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spoil the form, as a constant gradient in the graph would."""

    def broken(model: Any, plan: FormPlan, preprocessing: Any) -> Any:
        static = static_form(model, plan, preprocessing)
        static.module.classifier.step_size.add_(3.0)
        return static

    monkeypatch.setattr(mnexport.pipeline, "static_form", broken)


@pytest.mark.usefixtures("wrong_form")
def test_an_export_that_fails_parity_publishes_nothing(artifact: Path, repository: Path) -> None:
    with pytest.raises(ParityError, match=r"static form at batch 1:.*onnxruntime at batch 64:"):
        export(options(artifact, repository, form="factored"))
    with pytest.raises(ParityError, match=r"static form at batch 64: .* beyond 0\.001 on probabilities of the trained"):
        export(options(artifact, repository, form="low_rank"))
    with pytest.raises(ParityError, match="static form at batch 1:"):
        export(options(artifact, repository, form="auto"))
    assert everything_below(repository) == set()


@pytest.mark.usefixtures("wrong_form")
def test_a_failed_export_leaves_the_earlier_version_alone(artifact: Path, repository: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mnexport.pipeline, "static_form", static_form)
        export(options(artifact, repository))
    before = {name: (repository / name).stat().st_mtime_ns for name in everything_below(repository)}
    with pytest.raises(ParityError):
        export(options(artifact, repository))
    assert {name: (repository / name).stat().st_mtime_ns for name in everything_below(repository)} == before


def test_a_crash_while_publishing_leaves_nothing_visible(
    artifact: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(file: Path) -> str:
        if file.is_relative_to(artifact):
            return sha256(file)
        assert not (repository / "m").exists(), "a half-written model was visible"
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(mnexport.repository.publishing, "sha256", crash)
    with pytest.raises(PublishError, match=r"No space left on device.*Nothing was published"):
        export(options(artifact, repository))
    assert everything_below(repository) == set()


def test_a_full_disk_while_the_graph_is_written_publishes_nothing(
    artifact: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("onnx.save", full)
    with pytest.raises(ScratchError, match=r"No space left on device.*Nothing was published"):
        export(options(artifact, repository, form="factored"))
    assert everything_below(repository) == set()


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"form": "compact"}, UsageError, "compact"),
        ({"vanilla": True, "form": "explicit"}, UsageError, "no adaptation"),
        ({"max_batch_size": 0}, UsageError, "max-batch-size is 0"),
        ({"calibration": "test"}, UsageError, "--calibration 'test' does not exist; choose from samples, train."),
        ({"parity_images": "train"}, UsageError, "--parity 'train' does not exist; choose from samples, test."),
        ({"data_path": "x"}, UsageError, "--parity test"),
        ({"version": 0}, UsageError, "Version 0"),
        ({"name": "a/b"}, UsageError, "a/b"),
        ({"name": ".hidden"}, UsageError, "hidden"),
        ({"name": ""}, UsageError, "Model name ''"),
    ],
)
def test_wrong_options_are_refused_before_any_work(
    artifact: Path, repository: Path, changes: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        options(artifact, repository, **changes)


def test_a_vanilla_model_has_no_adaptive_form(runs: Path, repository: Path) -> None:
    with pytest.raises(FormError, match="vanilla model does not adapt"):
        export(options(runs / "vanilla" / "artifact", repository, form="factored"))


def test_a_missing_artifact_and_changed_data_are_refused(artifact: Path, repository: Path, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="no artifact folder"):
        export(options(tmp_path / "none", repository))
    copied = Path(shutil.copytree(artifact, tmp_path / "artifact"))
    values = json.loads((copied / "config.json").read_text())
    values["split"]["sha256"] = "0" * 64
    (copied / "config.json").write_text(json.dumps(values))
    with pytest.raises(DataError, match="not those the artifact was trained with"):
        export(options(copied, repository, parity_images="test"))
    assert everything_below(repository) == set()


def test_a_loose_tolerance_is_recorded(artifact: Path, repository: Path) -> None:
    loose = Tolerance(atol=0.5, rtol=0.25)
    export(options(artifact, repository, form="auto", parity_tolerance=loose, approximation_tolerance=0.01))
    comparisons = json.loads((repository / "m/1/export.json").read_text())["parity"]["comparisons"]
    assert [(item["what"], item["reference"], item["tolerance"]) for item in comparisons[2:4]] == [
        ("static form", "trained model", "0.01 on probabilities"),
        ("onnxruntime", "static form", "atol 0.5, rtol 0.25"),
    ]


def test_the_file_for_cpus_has_keys_in_8_bits(artifact: Path, repository: Path) -> None:
    report = export(options(artifact, repository, form="auto"))
    loaded = load_artifact(artifact)
    with torch.inference_mode():
        expected = loaded.model(loaded.preprocessing(torch.from_numpy(loaded.samples.images))).logits.softmax(-1)
    cpu = report.path.with_name("cpu.onnx")
    for batch in (1, 3, 256):
        images = loaded.samples.images[:batch]
        found = onnxruntime.InferenceSession(str(cpu)).run(["probabilities"], {"image": images})[0]
        np.testing.assert_allclose(found, expected[:batch].numpy(), atol=1e-3, rtol=0)
    assert "MatMulInteger" in {node.op_type for node in onnx.load(cpu).graph.node}
    assert "MatMulInteger" not in {node.op_type for node in onnx.load(report.path).graph.node}
    integer = report.adaptation["integer_keys"]
    assert max(integer["fitted_error"], integer["held_out_error"]) <= 5e-4
    whats = {item.what: item for item in report.parity.comparisons}
    assert whats["onnxruntime, cpu.onnx"].reference == "trained model"


def test_a_model_goes_without_the_file_for_cpus_where_that_alone_fails(
    artifact: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def coarse(model: Any, plan: FormPlan, preprocessing: Any) -> Any:
        static = static_form(model, plan, preprocessing)
        static.cpu_module.classifier.keys.codes.zero_()
        return static

    monkeypatch.setattr(mnexport.pipeline, "static_form", coarse)
    report = export(options(artifact, repository, form="auto"))
    assert report.form == "low_rank"
    assert {item.name for item in report.path.parent.iterdir()} == {"model.onnx", "export.json"}
    record = json.loads(report.path.with_name("export.json").read_text())
    assert set(record["sha256"]) == {"model.onnx"}
    assert record["adaptation"]["integer_keys"] is None
    assert record["cpu"]["left_out"].startswith("onnxruntime, cpu.onnx at batch 1: ")
    assert {item.what for item in report.parity.comparisons} == {"static form", "onnxruntime"}


def test_exact_forms_have_no_file_of_their_own_for_cpus(artifact: Path, repository: Path) -> None:
    report = export(options(artifact, repository, form="factored"))
    assert not report.path.with_name("cpu.onnx").exists()


def test_a_tolerance_that_cannot_be_met_falls_back_to_the_exact_form_and_says_so(
    artifact: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FormPlan, "table_limit", 1)
    monkeypatch.setattr(FormPlan.__init__, "__kwdefaults__", FormPlan.__init__.__kwdefaults__ | {"table_limit": 1})
    report = export(options(artifact, repository, form="auto", approximation_tolerance=1e-6))
    assert report.form == "factored"
    assert "does not come within 1e-06" in report.adaptation["reason"]
    with pytest.raises(FormError, match="looser --tolerance"):
        export(options(artifact, repository, form="low_rank", approximation_tolerance=1e-6))


@pytest.mark.parametrize("tolerance", [0.0, -1e-3, 1.0, float("nan"), float("inf")])
def test_an_impossible_tolerance_of_probabilities_is_refused(artifact: Path, tolerance: float) -> None:
    with pytest.raises(UsageError, match="above 0 and below 1"):
        options(artifact, Path("anywhere"), approximation_tolerance=tolerance)


def test_an_approximation_can_be_fitted_to_the_training_split(artifact: Path, repository: Path) -> None:
    report = export(options(artifact, repository, form="low_rank", calibration="train"))
    found = report.adaptation["calibration"]
    assert found["source"].startswith("training split")
    assert found["fitted"] > 256


def test_an_artifact_with_one_sample_exports_exactly(artifact: Path, repository: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(artifact, tmp_path / "artifact"))
    samples = load_file(copied / "samples.safetensors")
    save_file({name: values[:1] for name, values in samples.items()}, copied / "samples.safetensors")
    report = export(options(copied, repository, form="auto"))
    assert report.form == "factored"
    assert "the artifact holds fewer than two" in report.adaptation["reason"]
    with pytest.raises(FormError, match="--calibration"):
        export(options(copied, repository, form="low_rank"))

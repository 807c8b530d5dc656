"""Backbones in fewer bits: the loss of accuracy is measured, and too much is not published."""

import dataclasses
import json
import logging
import resource
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

import mnexport.precision.stage
from mnexport.calibration import calibration_examples
from mnexport.commands.cli import main
from mnexport.errors import FormError, GraphError, ParityError, ScratchError, UsageError
from mnexport.forms.base import DeployedClassifier
from mnexport.forms.dispatch import static_form
from mnexport.forms.folded_norm import FoldedNorm
from mnexport.forms.layers import static_layers
from mnexport.forms.mixed_precision import LoweredBackbone
from mnexport.forms.plan import FormPlan
from mnexport.graph import write_onnx
from mnexport.options import ExportOptions
from mnexport.parity.tolerance import Answers
from mnexport.pipeline import export
from mnexport.precision.accuracy import AccuracyReport, DType, Precision
from mnexport.precision.lowering import check_lowerable, lower
from mnexport.precision.quantization import quantize
from mnexport.progress import no_progress
from mnexport.repository.target import Target, sha256
from mnexport.scratch import scratch_folder
from mnexport.signature import ExportTensor, image_signature
from mntrain.artifact import ImageArtifact, load_artifact
from mntrain.artifact_config import InputSpec
from mntrain.backbones.config import BackboneConfig, build_backbone
from mntrain.data.preprocessing import Preprocessing, PreprocessingConfig
from mntrain.models.families import FAMILIES
from mntrain.training.artifact_data import load_data


def options(runs: Path, repository: Path, dtype: Any, **changes: Any) -> ExportOptions:
    family = changes.pop("family", "meta_neighborhoods")
    precision = Precision(dtype=dtype, max_accuracy_drop=changes.pop("max_accuracy_drop", 0.02))
    target = Target(repository=repository, name="m")
    return ExportOptions(artifact=runs / family / "artifact", target=target, precision=precision, **changes)


@pytest.mark.parametrize("family", sorted(FAMILIES))
@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_a_lower_precision_answers_nearly_as_well(runs: Path, repository: Path, family: str, dtype: str) -> None:
    report = export(options(runs, repository, dtype, family=family))
    artifact = load_artifact(runs / family / "artifact")
    images, labels = artifact.samples.images, artifact.samples.labels
    found = onnxruntime.InferenceSession(str(report.path)).run(["probabilities"], {"image": images})[0]
    assert found.dtype == np.float32
    assert report.accuracy is not None
    assert report.accuracy.exported == pytest.approx(float(np.mean(found.argmax(1) == labels)))
    with torch.inference_mode():
        trained = artifact.model(artifact.preprocessing(torch.from_numpy(images))).logits.argmax(-1).numpy()
    assert report.accuracy.trained == pytest.approx(float(np.mean(trained == labels)))
    record = json.loads(report.path.with_name("export.json").read_text())
    assert record["dtype"] == record["accuracy"]["dtype"] == dtype
    assert record["graph"]["size"] == report.path.stat().st_size
    assert (record["cpu"] is not None) == ((family, dtype) == ("meta_neighborhoods", "int8"))
    if record["cpu"] is not None:
        cpu = report.path.with_name("cpu.onnx")
        rounded = onnxruntime.InferenceSession(str(cpu)).run(["probabilities"], {"image": images})[0]
        assert record["cpu"]["accuracy"]["exported"] == pytest.approx(float(np.mean(rounded.argmax(1) == labels)))
        assert record["cpu"]["accuracy"]["dtype"] == "int8"
        kinds = {node.op_type for node in onnx.load(cpu).graph.node}
        assert kinds >= {"MatMulInteger", "QuantizeLinear"}
        assert record["sha256"]["cpu.onnx"] == sha256(cpu)
    empty = onnxruntime.InferenceSession(str(report.path)).run(["probabilities"], {"image": images[:0]})[0]
    assert empty.shape == (0, 10)


def test_only_the_backbone_is_lowered(runs: Path, repository: Path) -> None:
    for dtype, lowest in (("float16", onnx.TensorProto.FLOAT16), ("bfloat16", onnx.TensorProto.BFLOAT16)):
        report = export(options(runs, repository, dtype, form="factored"))
        graph = onnx.load(report.path).graph
        weights = {item.name: item for item in graph.initializer}
        convolutions = [node for node in graph.node if node.op_type == "Conv"]
        assert convolutions
        assert all(weights[node.input[1]].data_type == lowest for node in convolutions)
        matrices = [name for node in graph.node if node.op_type == "MatMul" for name in node.input]
        products = [weights[name] for name in matrices if name in weights]
        assert products
        assert all(item.data_type == onnx.TensorProto.FLOAT for item in products)


def test_an_int8_graph_quantises_every_convolution_and_nothing_else(runs: Path, repository: Path) -> None:
    report = export(options(runs, repository, "int8", explain=2))
    for name in ("model.onnx", "core.onnx"):
        model = onnx.load(report.path.with_name(name))
        makers = {output: node for node in model.graph.node for output in node.output}
        for node in model.graph.node:
            if node.op_type == "Conv":
                assert [makers[item].op_type for item in node.input[:2]] == ["DequantizeLinear"] * 2
            elif node.op_type == "MatMul":
                assert not any(item in makers and makers[item].op_type == "DequantizeLinear" for item in node.input)
        assert {item.key for item in model.metadata_props} >= {"mn.form", "mn.labels"}


def test_bfloat16_is_checked_where_it_can_be_computed(
    runs: Path, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(runs / "meta_neighborhoods" / "artifact"), str(repository / "m"), "--dtype", "bfloat16"]
    assert main([*words, "--max-accuracy-drop", "0.05"]) == 0
    out = capsys.readouterr().out
    assert "bfloat16 (PyTorch): accuracy" in out
    assert "on GPUs only" in out


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda right: right[:, ::-1], r"has an accuracy of .*Nothing was published; a larger drop"),
        (lambda right: right * np.nan, r"has probabilities that are not finite.*Nothing was published; take another"),
    ],
)
def test_too_much_loss_is_not_published(
    runs: Path, repository: Path, monkeypatch: pytest.MonkeyPatch, answer: Any, words: str
) -> None:
    def spoiled(*fields: Any) -> tuple[str, Any]:
        name, runner = real(*fields)

        def run(images: Any) -> Answers:
            return {"probabilities": answer(runner(images)["probabilities"])}

        return name, run

    real = mnexport.precision.stage.lower
    monkeypatch.setattr(mnexport.precision.stage, "lower", spoiled)
    with pytest.raises(ParityError, match=rf"The export loses too much: in float16 it {words}"):
        export(options(runs, repository, "float16"))
    assert list(repository.iterdir()) == []


def test_a_gain_of_accuracy_passes_and_any_loss_above_the_limit_fails() -> None:
    figures: dict[str, Any] = {"dtype": "int8", "engine": "onnxruntime", "examples": 10, "other_class": 1}
    better = AccuracyReport(**figures, trained=0.5, exported=0.6, max_probability_error=0.1, most_lost=0.0)
    better.raise_failure()
    with pytest.raises(ParityError):
        AccuracyReport(**figures, trained=0.6, exported=0.59, max_probability_error=0.1, most_lost=0.0).raise_failure()


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan"), float("inf")])
def test_an_impossible_share_or_dtype_is_refused(share: float) -> None:
    with pytest.raises(UsageError, match="from 0 to 1"):
        Precision(dtype="int8", max_accuracy_drop=share)
    with pytest.raises(UsageError, match="choose from float32"):
        Precision(dtype="int4")  # type: ignore[arg-type]


def test_a_model_without_a_backbone_is_not_lowered() -> None:
    with pytest.raises(FormError, match="a regressor, adapted or not, is one network without a backbone"):
        check_lowerable(nn.Linear(1, 1), Precision(dtype="float16"))
    check_lowerable(nn.Linear(1, 1), Precision())


def test_a_model_without_convolutions_is_refused_before_it_is_traced() -> None:
    module = DeployedClassifier(nn.Identity(), nn.Linear(2, 3), nn.Linear(3, 4))
    with pytest.raises(FormError, match="has no convolution; take --dtype float32"):
        check_lowerable(module, Precision(dtype="int8"))
    check_lowerable(module, Precision(dtype="float16"))
    check_lowerable(static(ifilm=False), Precision(dtype="int8"))


def graph_without_convolutions(file: Path) -> None:
    spec = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", 2])
    node = onnx.helper.make_node("Identity", ["x"], ["y"])
    graph = onnx.helper.make_graph([node], "g", [spec], [onnx.helper.make_tensor_value_info("y", 1, ["batch", 2])])
    onnx.save(onnx.helper.make_model(graph), file)


def test_a_graph_without_convolutions_is_not_quantised(tmp_path: Path) -> None:
    graph_without_convolutions(tmp_path / "m.onnx")
    signature = dataclasses.replace(SIGNATURE, inputs=(ExportTensor(name="x", datatype="FP32", shape=(2,)),))
    with pytest.raises(GraphError, match="nothing to quantise"):
        quantize(tmp_path / "m.onnx", signature, np.zeros((4, 2), np.float32))


@pytest.fixture(scope="module")
def quantised(tmp_path_factory: pytest.TempPathFactory) -> onnx.GraphProto:
    """Graph of a small backbone in int8, calibrated on 40 images; only the last ones, beyond one batch, are bright."""
    file = tmp_path_factory.mktemp("int8") / "m.onnx"
    module = static(ifilm=False)
    # Channels of very different size, which one range for all of them would round away.
    with torch.no_grad():
        for layer in (item for item in module.modules() if isinstance(item, nn.Conv2d)):
            layer.weight.mul_(torch.logspace(-3, 0, len(layer.weight)).view(-1, 1, 1, 1))
    write_onnx(module, SIGNATURE, 20, {}, file)
    examples = np.full((40, 3, 16, 16), 10, np.uint8)
    examples[-4:] = 255
    quantize(file, SIGNATURE, examples)
    return onnx.load(file).graph


def quantities(graph: onnx.GraphProto, place: int) -> list[tuple[np.ndarray, np.ndarray, onnx.NodeProto]]:
    """Collect the dequantisation of maps (0) or weights (1) of every convolution: scale, zero point, node."""
    constants = {item.name: onnx.numpy_helper.to_array(item) for item in graph.initializer}
    makers = {output: node for node in graph.node for output in node.output}
    nodes = [makers[node.input[place]] for node in graph.node if node.op_type == "Conv"]
    return [(constants[node.input[1]], constants[node.input[2]], node) for node in nodes]


def test_int8_rounds_the_weights_of_every_channel_by_themselves(quantised: onnx.GraphProto) -> None:
    constants = {item.name: onnx.numpy_helper.to_array(item) for item in quantised.initializer}
    found = quantities(quantised, 1)
    assert len(found) == 4
    for scale, zero, node in found:
        codes = constants[node.input[0]]
        assert scale.shape == zero.shape == codes.shape[:1]
        assert {item.name: item.i for item in node.attribute}["axis"] == 0
        assert codes.dtype == zero.dtype == np.int8
        assert not zero.any()
        assert (np.abs(codes.astype(int)).reshape(len(codes), -1).max(axis=1) >= 126).all(), "each uses its range"


def test_int8_maps_are_symmetric_and_of_one_range(quantised: onnx.GraphProto) -> None:
    for scale, zero, _ in quantities(quantised, 0):
        assert scale.size == 1
        assert zero.dtype == np.int8
        assert not zero.any()


def test_int8_takes_ranges_from_all_calibration_images(quantised: onnx.GraphProto) -> None:
    """White pixels, 1 after preprocessing, are 127 steps from 0."""
    scale, _, _ = quantities(quantised, 0)[0]
    assert float(scale) == pytest.approx(1 / 127, rel=0.01)


def test_a_full_disk_while_quantising_is_no_error_of_the_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    write_onnx(static(ifilm=False), SIGNATURE, 20, {}, tmp_path / "m.onnx")
    monkeypatch.setattr("onnxruntime.quantization.quantize_static", full)
    with pytest.raises(OSError, match="No space left"):
        quantize(tmp_path / "m.onnx", SIGNATURE, IMAGES)


def test_a_full_disk_in_the_quantiser_is_a_sentence_and_no_traceback(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Limit the size of files, so that writing fails in ONNX Runtime's own code as well."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def work() -> None:
        with scratch_folder() as scratch:
            write_onnx(static(ifilm=False), SIGNATURE, 20, {}, scratch / "m.onnx")
            resource.setrlimit(resource.RLIMIT_FSIZE, ((scratch / "m.onnx").stat().st_size // 2, hard))
            try:
                quantize(scratch / "m.onnx", SIGNATURE, IMAGES)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    with pytest.raises(ScratchError, match="is full: File too large"):
        work()
    assert "".join(capfd.readouterr()) == ""
    said = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert said == [], "without a handler they go to the terminal"


def test_int8_is_calibrated_on_the_images_that_were_asked_for(runs: Path, repository: Path) -> None:
    artifact = load_artifact(runs / "meta_neighborhoods" / "artifact")
    assert isinstance(artifact, ImageArtifact)
    asked = options(runs, repository, "int8", form="factored", calibration="train")
    assert asked.calibrates
    found = calibration_examples(artifact, asked.calibration, asked.data_path, no_progress)
    assert found is not None
    assert found.source.startswith("training split")
    assert len(found.fitted) > len(artifact.samples)
    assert not options(runs, repository, "float16", form="factored").calibrates


def test_calibration_fits_to_the_training_split_and_judges_on_the_validation_split(runs: Path) -> None:
    artifact = load_artifact(runs / "meta_neighborhoods" / "artifact")
    assert isinstance(artifact, ImageArtifact)
    found = calibration_examples(artifact, "train", None, no_progress)
    assert found is not None
    data = load_data(artifact.config)
    for images, split in ((found.fitted, "train"), (found.held_out, "validation")):
        np.testing.assert_array_equal(images, data.part(split).inputs[:1024])
    assert not {image.tobytes() for image in found.fitted} & {image.tobytes() for image in found.held_out}
    held_out = calibration_examples(artifact, "samples", None, no_progress)
    assert held_out is not None
    np.testing.assert_array_equal(held_out.fitted, artifact.samples.images[::2])
    np.testing.assert_array_equal(held_out.held_out, artifact.samples.images[1::2])


def test_the_lookup_of_ifilm_stays_in_float32() -> None:
    """Maps are so large that their squares overflow float16."""
    torch.manual_seed(0)
    backbone = build_backbone(BackboneConfig(name="convnet4", width=0.25, ifilm=True), (3, 16, 16)).eval()
    static_layers(backbone)
    lowered = LoweredBackbone(backbone, torch.float16)
    folded = [module for module in lowered.modules() if isinstance(module, FoldedNorm)]
    assert folded
    assert all(buffer.dtype == torch.float32 for module in folded for buffer in module.buffers())
    maps = torch.full((2, folded[0].scale.shape[0], 4, 4), 500.0)
    with torch.inference_mode():
        low, high = folded[0](maps.half()), folded[0](maps)
    assert low.dtype == torch.float16
    torch.testing.assert_close(low.float(), high, rtol=2e-3, atol=2e-3)


SIGNATURE = image_signature(InputSpec(channels=3, height=16, width=16), tuple("abcd"))
IMAGES = np.random.default_rng(0).integers(0, 256, (8, 3, 16, 16), dtype=np.uint8)


def static(*, ifilm: bool, factor: float = 1.0) -> nn.Module:
    """Make a static vanilla model; ``factor`` scales its first normalisation, and 1/factor the next convolution."""
    torch.manual_seed(0)
    config = BackboneConfig(name="convnet4", width=0.25, ifilm=ifilm, ifilm_entries=3)
    entry = FAMILIES["vanilla"]
    model = entry.build(entry.config(), partial(build_backbone, config, (3, 16, 16)), 4).eval()
    if not ifilm:
        convolutions = [module for module in model.modules() if isinstance(module, nn.Conv2d)]
        norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
        with torch.no_grad():
            norms[0].weight.mul_(factor)
            norms[0].bias.mul_(factor)
            convolutions[1].weight.div_(factor)
    return static_form(model, FormPlan(), Preprocessing(PreprocessingConfig.identity(3))).module


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_ifilm_is_written_in_16_bits(dtype: DType, tmp_path: Path) -> None:
    file = tmp_path / "m.onnx"
    lower(static(ifilm=True), file, SIGNATURE, Precision(dtype=dtype), 20, {}, IMAGES)
    kinds = {node.op_type for node in onnx.load(file).graph.node}
    assert "Conv" in kinds
    assert not any("Sequence" in kind for kind in kinds), "unknown to TensorRT"


def test_activations_beyond_float16_are_refused(tmp_path: Path) -> None:
    """ONNX Runtime would compute it in float32 on a CPU, and a GPU would answer NaN."""
    module, file = static(ifilm=False, factor=1e6), tmp_path / "m.onnx"
    with pytest.raises(ParityError, match="11 of 11 images, three of them blank, get no finite answer"):
        lower(module, file, SIGNATURE, Precision(dtype="float16"), 20, {}, IMAGES)
    assert not file.exists()
    lower(module, file, SIGNATURE, Precision(dtype="bfloat16"), 20, {}, IMAGES)
    assert file.exists()

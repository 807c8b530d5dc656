"""Networks and heads as one published graph: answers, operators, records, precisions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from common.head_artifacts import Samples, smooth_images, write_linear_head

from mnexport.errors import FormError, ParityError, UsageError
from mnexport.graph import GraphOptions
from mnexport.options import ExportOptions
from mnexport.pipeline import export
from mnexport.precision.accuracy import Precision
from mnexport.report import ExportReport
from mnexport.repository.target import Target
from mntrain.artifact import load_artifact
from mntrain.networks.frozen_network import FrozenNetwork
from mntrain.networks.opening import open_named
from mntrain.networks.options import NetworkOptions


def exported(artifact: Path, repository: Path, **changes: Any) -> ExportReport:
    return export(ExportOptions(artifact=artifact, target=Target(repository=repository, name="m"), **changes))


def answered(path: Path, images: np.ndarray, *names: str) -> list[np.ndarray]:
    outputs: list[np.ndarray] = onnxruntime.InferenceSession(str(path)).run(list(names), {"image": images})
    return outputs


def expected(artifact: Path, network: FrozenNetwork, images: np.ndarray) -> np.ndarray:
    loaded = load_artifact(artifact)
    with torch.inference_mode():
        rows = loaded.preprocessing(torch.from_numpy(network.embed(images)))
        return np.asarray(loaded.model(rows).logits)


def operators(path: Path, prefix: str) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node if node.name.startswith(prefix)]


def test_pixels_go_in_and_the_head_answers(
    linear_head: Path, small_network: FrozenNetwork, small_samples: Samples, repository: Path
) -> None:
    report = exported(linear_head, repository)
    for batch in (1, 2, 24):
        logits, probabilities = answered(report.path, small_samples.images[:batch], "logits", "probabilities")
        wanted = expected(linear_head, small_network, small_samples.images[:batch])
        np.testing.assert_allclose(logits, wanted, atol=1e-5)
        np.testing.assert_allclose(probabilities, torch.from_numpy(wanted).softmax(1), atol=1e-6)
    assert answered(report.path, small_samples.images[:0], "logits")[0].shape == (0, 4)


def test_a_linear_head_is_three_plain_operators(linear_head: Path, repository: Path) -> None:
    report = exported(linear_head, repository)
    assert operators(report.path, "head/") == ["MatMul", "Add", "Softmax"]
    assert operators(report.path, "pixels/") == ["Cast", "Mul", "Add"]


def test_nodes_and_weights_of_the_network_are_those_of_the_file(
    linear_head: Path, small_onnx: Path, repository: Path
) -> None:
    report = exported(linear_head, repository)
    own, whole = onnx.load(small_onnx), onnx.load(report.path)
    assert report.graph.opset == 18, "that of the network, although --opset is 20"
    inside = [node for node in whole.graph.node if node.name.startswith("network/")]
    kept = list(own.graph.node)[: len(inside)]
    assert len(own.graph.node) - len(inside) == 1, "its last layer is cut off"
    for node, before in zip(inside, kept, strict=True):
        assert (node.op_type, list(node.attribute)) == (before.op_type, list(before.attribute))
    weights = {item.name: item.raw_data for item in whole.graph.initializer}
    for item in own.graph.initializer:
        if any(item.name in node.input for node in kept):
            assert weights[f"network/{item.name}"] == item.raw_data
    assert not any("last" in name for name in weights)


def test_the_record_tells_network_cut_and_equal_features(
    linear_head: Path, small_network: FrozenNetwork, repository: Path
) -> None:
    report = exported(linear_head, repository)
    record = json.loads(report.path.with_name("export.json").read_text())
    assert record["network"] == json.loads(json.dumps(small_network.record.to_dict()))
    assert record["graft"]["cut"] == small_network.record.output
    assert record["graft"]["own_opset"] == 18
    assert sum(record["graft"]["nodes"].values()) == report.graph.nodes
    assert record["graft"]["features"]["files"] == ["model.onnx"]
    assert len(record["graft"]["features"]["sha256"]) == 64
    assert record["input"] == {"layout": "NCHW", "color": "RGB", "scale": "0..255", "fit": "crop"}
    assert record["labels"] == ["class 0", "class 1", "class 2", "class 3"]


@pytest.mark.parametrize("form", ["low_rank", "explicit", "factored"])
def test_an_adaptive_head_takes_every_form_and_explains(
    form: str, neighborhood_head: Path, small_network: FrozenNetwork, small_samples: Samples, repository: Path
) -> None:
    report = exported(neighborhood_head, repository, form=form, explain=3, approximation_tolerance=1e-2)
    assert report.form == form
    assert report.graft is not None
    assert report.graft.features is not None
    assert set(report.graft.features.files) >= {"model.onnx", "core.onnx"}, "each file has the network inside"
    images = small_samples.images
    probabilities, indices, weights = answered(
        report.path, images, "probabilities", "neighbor_indices", "neighbor_weights"
    )
    wanted = expected(neighborhood_head, small_network, images)
    np.testing.assert_allclose(probabilities, torch.from_numpy(wanted).softmax(1), atol=1e-2)
    artifact = load_artifact(neighborhood_head)
    with torch.inference_mode():
        rows = artifact.preprocessing(torch.from_numpy(small_network.embed(images)))
        attention = artifact.model.attention_over_all(rows).numpy()  # type: ignore[operator]
    np.testing.assert_allclose(weights, np.take_along_axis(attention, indices, 1), atol=1e-5)
    target = Target(repository=repository, name="plain")
    plain = export(ExportOptions(artifact=neighborhood_head, target=target, vanilla=True))
    assert np.abs(answered(plain.path, images, "probabilities")[0] - probabilities).max() > 0.02, "it adapts"


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_a_network_of_an_onnx_file_is_lowered(dtype: Any, neighborhood_head: Path, repository: Path) -> None:
    report = exported(neighborhood_head, repository, precision=Precision(dtype=dtype, max_accuracy_drop=1.0))
    assert report.accuracy is not None
    assert report.accuracy.max_probability_error < 0.1
    model = onnx.load(report.path)
    wanted = onnx.TensorProto.FLOAT16 if dtype == "float16" else onnx.TensorProto.INT8
    lowered = [item.name for item in model.graph.initializer if item.data_type == wanted]
    assert lowered
    assert not [name for name in lowered if name.startswith("head/")], "what adapts stays float32"


def test_values_beyond_float16_are_refused(
    small_onnx: Path, tmp_path: Path, repository: Path, head_on: Callable[..., Path]
) -> None:
    model = onnx.load(small_onnx)
    for item in model.graph.initializer:
        if len(item.dims) == 4 and item.dims[1] == 3:
            item.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(item) * 1e6, item.name))
    onnx.save(model, tmp_path / "large.onnx")
    network = open_named(NetworkOptions(source=str(tmp_path / "large.onnx")), lambda _: None).for_images((3, 16, 16))
    with pytest.raises(ParityError, match=r"float16 cannot hold, for [89] of 9 images, three of them blank"):
        exported(head_on(network), repository, precision=Precision(dtype="float16"))
    assert list(repository.iterdir()) == []


def test_float_pixels_and_another_stored_size(
    small_onnx: Path, repository: Path, tmp_path: Path, head_on: Callable[..., Path]
) -> None:
    """Images of 3×40×24 are resized in the graph."""
    network = open_named(NetworkOptions(source=str(small_onnx), mean=(0.5,)), lambda _: None).for_images((3, 40, 24))
    artifact = head_on(network)
    report = exported(artifact, repository, graph=GraphOptions(input_type="float32"), form="factored")
    record = json.loads(report.path.with_name("export.json").read_text())
    assert record["input"]["resize"] == [16, 16]
    assert record["inputs"][0]["shape"] == [-1, 3, 40, 24]
    images = np.random.default_rng(3).integers(0, 256, (5, 3, 40, 24), np.uint8)
    found = answered(report.path, images.astype(np.float32) / 255, "logits")[0]
    np.testing.assert_allclose(found, expected(artifact, network, images), atol=1e-4)


def test_options_that_a_head_cannot_have(neighborhood_head: Path, repository: Path) -> None:
    with pytest.raises(UsageError, match="--parity test reads the test split, of which a head on features knows no"):
        exported(neighborhood_head, repository, parity_images="test")
    with pytest.raises(UsageError, match="--dtype int8 needs images"):
        exported(neighborhood_head, repository, precision=Precision(dtype="int8"), calibration="train")
    with pytest.raises(FormError, match="--dtype bfloat16 traces the network in PyTorch"):
        exported(neighborhood_head, repository, precision=Precision(dtype="bfloat16"))
    assert list(repository.iterdir()) == []


def test_the_foreign_classifier_of_a_package_keeps_its_features(
    foreign_classifier: Path, repository: Path, tmp_path: Path
) -> None:
    """A network of operator set 9 that takes BGR pixels in NHWC, less their mean."""
    options = NetworkOptions(
        source=str(foreign_classifier), mean=(104.0, 117.0, 123.0), scale=255.0, channel_order="BGR"
    )
    network = open_named(options, lambda _: None).for_images((3, 224, 224), "crop")
    samples = Samples.of(network, smooth_images(4, (3, 224, 224)), 3)
    write_linear_head(tmp_path / "head", network, samples)
    report = exported(tmp_path / "head", repository, max_batch_size=4)
    assert report.graft is not None
    assert report.graft.features is not None
    assert (report.graft.own_opset, report.graph.opset, report.graft.network_nodes) == (9, 20, 123)
    found = answered(report.path, samples.images, "logits")[0]
    np.testing.assert_allclose(found, expected(tmp_path / "head", network, samples.images), atol=1e-4)

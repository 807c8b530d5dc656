"""Small convolutional networks whose batches take much more memory than their files.

Shapes: images float32 [N, 3, H, W], N open.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_SMALL_CHANNELS: Final = (3, 16, 32)
_SMALL_SIZE: Final = 224
_CLASSES: Final = 10
_DENSE_CHANNELS: Final = (3, 16, 16, 16, 16, 8, 2)
_DENSE_SIZE: Final = 512


def small_network(seed: int) -> onnx.ModelProto:
    """Build a classifier of two convolutions for images of 224 pixels; the seed draws its weights."""
    random = np.random.default_rng(seed)
    nodes, weights = _convolutions(random, _SMALL_CHANNELS, stride=2)
    head = random.standard_normal((_SMALL_CHANNELS[-1], _CLASSES), np.float32)
    weights.append(numpy_helper.from_array(head, "head"))
    nodes += [
        helper.make_node("GlobalAveragePool", [f"x{len(_SMALL_CHANNELS) - 1}"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["features"]),
        helper.make_node("MatMul", ["features", "head"], ["y"]),
    ]
    return _model(nodes, weights, _SMALL_SIZE, ["N", _CLASSES])


def segmentation_network() -> onnx.ModelProto:
    """Build a network of about 40 kB that keeps all 512 x 512 pixels in each of its six convolutions."""
    nodes, weights = _convolutions(np.random.default_rng(0), _DENSE_CHANNELS, stride=1)
    nodes.append(helper.make_node("Identity", [f"x{len(_DENSE_CHANNELS) - 1}"], ["y"]))
    return _model(nodes, weights, _DENSE_SIZE, ["N", _DENSE_CHANNELS[-1], _DENSE_SIZE, _DENSE_SIZE])


def write_models(folder: Path, models: Sequence[onnx.ModelProto]) -> None:
    """Write the models as a repository without any config.pbtxt."""
    for number, model in enumerate(models):
        version = folder / f"m{number:03}" / "1"
        version.mkdir(parents=True)
        onnx.save(model, version / "model.onnx")


def _convolutions(
    random: np.random.Generator, channels: Sequence[int], *, stride: int
) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    nodes, weights = [], []
    for number, (before, after) in enumerate(itertools.pairwise(channels), start=1):
        kernel = random.standard_normal((after, before, 3, 3), np.float32) / np.float32(np.sqrt(9 * before))
        weights.append(numpy_helper.from_array(kernel, f"w{number}"))
        source = "x" if number == 1 else f"x{number - 1}"
        names = [source, f"w{number}"], [f"c{number}"]
        nodes.append(helper.make_node("Conv", *names, pads=[1, 1, 1, 1], strides=[stride, stride]))
        nodes.append(helper.make_node("Relu", [f"c{number}"], [f"x{number}"]))
    return nodes, weights


def _model(
    nodes: list[onnx.NodeProto], weights: list[onnx.TensorProto], size: int, answer: Sequence[str | int]
) -> onnx.ModelProto:
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, size, size])
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, list(answer))
    graph = helper.make_graph(nodes, "network", [image], [output], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)

"""The models that Triton's client examples expect, small and with known answers.

Two classifiers stand for densenet_onnx and inception_onnx: their scores depend on the brightness of an image alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

Tensors = Sequence[tuple[str, int, list[str | int | None]]]

_ROWS: list[str | int | None] = ["batch", 16]
_BATCHED = "max_batch_size: 8\n"


def write_repository(root: Path) -> None:
    """Write the eight models that the example of model control counts."""
    for name, kind in (("simple", TensorProto.INT32), ("simple_int8", TensorProto.INT8)):
        _write_sums(root, name, kind)
    _write_sums(root, "simple_string", TensorProto.STRING)
    _write_identity(root, "simple_identity", TensorProto.STRING, ["batch", "width"])
    _write_identity(root, "custom_identity_int32", TensorProto.INT32, ["batch", "width"])
    _write_identity(root, "simple_sequence", TensorProto.INT32, ["batch", 1], names=("INPUT", "OUTPUT"))
    _write_classifier(root, "densenet_onnx", ("data_0", "fc6_1"), [1, 3, 224, 224], [1, 1000, 1, 1], "NCHW")
    names = ("input:0", "InceptionV3/Predictions/Softmax:0")
    _write_classifier(root, "inception_onnx", names, [1, 299, 299, 3], [1, 1001], "NHWC")


def write_image(path: Path) -> None:
    """Write a grey image."""
    from PIL import Image

    Image.fromarray(np.full((60, 80, 3), 128, np.uint8)).save(path)


def _write_sums(root: Path, name: str, kind: int) -> None:
    """Write a model whose outputs are the sum and the difference of two rows of 16; strings hold numbers."""
    inputs, outputs = [f"INPUT{index}" for index in range(2)], [f"OUTPUT{index}" for index in range(2)]
    # Operators of INT8 are few, and texts have none: both are computed as INT32.
    nodes = [helper.make_node("Cast", [one], [f"{one}_number"], to=TensorProto.INT32) for one in inputs]
    for operator, output in zip(("Add", "Sub"), outputs, strict=True):
        nodes.append(helper.make_node(operator, [f"{one}_number" for one in inputs], [f"{output}_number"]))
        nodes.append(helper.make_node("Cast", [f"{output}_number"], [output], to=kind))
    tensors = [[(one, kind, _ROWS) for one in names] for names in (inputs, outputs)]
    _save(root, name, nodes, tensors[0], tensors[1], config=_BATCHED)


def _write_identity(
    root: Path, name: str, kind: int, shape: list[str | int | None], names: tuple[str, str] = ("INPUT0", "OUTPUT0")
) -> None:
    node = helper.make_node("Identity", [names[0]], [names[1]])
    _save(root, name, [node], [(names[0], kind, shape)], [(names[1], kind, shape)], config=_BATCHED)


def _write_classifier(
    root: Path, name: str, tensors: tuple[str, str], shape: list[int], scores: list[int], layout: str
) -> None:
    """Write a classifier with a fixed batch of 1, which config.pbtxt takes away: score i = mean * weight i."""
    image, output = tensors
    classes = max(scores)
    nodes = [
        helper.make_node("ReduceMean", [image, "axes"], ["mean"], keepdims=1),
        helper.make_node("Reshape", ["mean", "one"], ["flat"]),
        helper.make_node("Mul", ["flat", "weights"], ["all"]),
        helper.make_node("Reshape", ["all", "shape"], [output]),
    ]
    weights = {
        "axes": np.array([1, 2, 3]),
        "one": np.array([1, 1]),
        "weights": np.linspace(0, 1, classes, dtype=np.float32)[None],
        "shape": np.array(scores),
    }
    config = f"""max_batch_size: 0
input {{
  name: "{image}" data_type: TYPE_FP32 format: FORMAT_{layout}
  dims: {shape[1:]} reshape {{ shape: {shape} }}
}}
output {{
  name: "{output}" data_type: TYPE_FP32
  dims: [{classes}] reshape {{ shape: {scores} }} label_filename: "labels.txt"
}}
"""
    kind = TensorProto.FLOAT
    _save(root, name, nodes, [(image, kind, [*shape])], [(output, kind, [*scores])], weights, config)
    (root / name / "labels.txt").write_text("".join(f"LABEL {index}\n" for index in range(classes)))


def _save(
    root: Path,
    name: str,
    nodes: Sequence[NodeProto],
    inputs: Tensors,
    outputs: Tensors,
    weights: dict[str, np.ndarray] | None = None,
    config: str = "",
) -> None:
    graph = helper.make_graph(
        list(nodes),
        name,
        [helper.make_tensor_value_info(*tensor) for tensor in inputs],
        [helper.make_tensor_value_info(*tensor) for tensor in outputs],
        [numpy_helper.from_array(array, key) for key, array in (weights or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    version = root / name / "1"
    version.mkdir(parents=True)
    onnx.save(model, str(version / "model.onnx"))
    (root / name / "config.pbtxt").write_text(config)

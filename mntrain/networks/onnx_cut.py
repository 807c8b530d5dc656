"""The last linear layer of an ONNX graph, and the tensor that goes into it.

Shapes: B images, d features, C classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mntrain.errors import DataError
from mntrain.heads.classifier import LinearClassifier
from mntrain.networks.libraries import onnx_library

# Operators between a linear layer and an output that keep one number for each class.
_AFTER = frozenset({"Softmax", "LogSoftmax", "Sigmoid", "Identity", "Cast", "Flatten", "Reshape", "Squeeze"})
# Operators that multiply or add a constant for each class.
_AFFINE = frozenset({"Add", "Sub", "Mul", "Div"})
_MOST_STEPS = 16


@dataclass(frozen=True, kw_only=True, eq=False)
class OnnxCut:
    """A place to cut a graph.

    Args:
        features: name of the tensor of the features.
        classifier: the linear layer that takes it.
        answer: output of the graph that this layer gives.
    """

    features: str
    classifier: LinearClassifier
    answer: str


class GraphValues:
    """Nodes and constants of an ONNX graph.

    Args:
        graph: of the model; large constants may lie in files beside it.
        folder: of the file.
    """

    def __init__(self, graph: Any, folder: Path) -> None:
        self._folder = folder
        self._initializers = {tensor.name: tensor for tensor in graph.initializer}
        self.producers: Mapping[str, Any] = {name: node for node in graph.node for name in node.output if name}
        """Tensor → node that computes it."""

    def constant(self, name: str) -> NDArray[Any] | None:
        """Read a constant as float32; None for a tensor that is computed.

        Raises:
            DataError: its file is missing.
        """
        onnx = onnx_library()
        tensor, node = self._initializers.get(name), self.producers.get(name)
        if tensor is None and node is not None:
            if node.op_type == "Identity":
                return self.constant(node.input[0])
            given = {item.name: item for item in node.attribute}
            if node.op_type == "Transpose" and (inner := self.constant(node.input[0])) is not None:
                return np.transpose(inner, tuple(given["perm"].ints) if "perm" in given else None)
            if node.op_type == "Constant" and {"value_float", "value_floats"} & given.keys():
                numbers = onnx.helper.get_attribute_value(node.attribute[0])
                return np.asarray(numbers, dtype=np.float32)
            tensor = given["value"].t if node.op_type == "Constant" and "value" in given else None
        if tensor is None:
            return None
        try:
            return np.asarray(onnx.numpy_helper.to_array(tensor, base_dir=str(self._folder)), dtype=np.float32)
        except (OSError, ValueError, TypeError, onnx.checker.ValidationError) as error:
            raise DataError(f"The weights {name!r} cannot be read ({error}); copy all files of the network.") from error


def find_cuts(values: GraphValues, outputs: list[str]) -> list[OnnxCut]:
    """Find the linear layer of each output that has one: a Gemm or a MatMul, with constants added or multiplied behind.

    Args:
        values: of the graph.
        outputs: names of its outputs; those that share a layer with an earlier one, as probabilities do, are left out.
    """
    found: list[OnnxCut] = []
    for output in outputs:
        name = output
        for _ in range(_MOST_STEPS):
            node = values.producers.get(name)
            if node is None:
                break
            if (cut := _linear(values, node, output)) is not None:
                if not any(_is_same(cut, other) for other in found):
                    found.append(cut)
                break
            if node.op_type not in _AFTER:
                break
            name = node.input[0]
    return found


def _is_same(one: OnnxCut, other: OnnxCut) -> bool:
    return one.features == other.features and all(
        np.array_equal(getattr(one.classifier, name), getattr(other.classifier, name)) for name in ("weight", "bias")
    )


def _linear(values: GraphValues, node: Any, answer: str, steps: int = _MOST_STEPS) -> OnnxCut | None:
    if node.op_type == "Gemm":
        return _gemm(values, node, answer)
    if node.op_type == "MatMul":
        weight = values.constant(node.input[1])
        return None if weight is None else _cut(node.input[0], weight.T, None, answer)
    if node.op_type not in _AFFINE or not steps:
        return None
    pairs = [tuple(node.input)] + ([tuple(reversed(node.input))] if node.op_type in ("Add", "Mul") else [])
    for name, constant in pairs:
        before, value = values.producers.get(name), values.constant(constant)
        if before is not None and value is not None:
            inner = _linear(values, before, answer, steps - 1)
            return None if inner is None else _changed(inner, node.op_type, value)
    return None


def _changed(cut: OnnxCut, operator: str, value: NDArray[Any]) -> OnnxCut | None:
    """Take a constant behind a linear layer into it; None where it is not one value for each class, or for all."""
    weight, bias = cut.classifier.weight, cut.classifier.bias
    if value.size not in (1, len(weight)) or (value.size > 1 and value.shape[-1] != value.size):
        return None
    each = np.broadcast_to(value.reshape(-1), bias.shape)
    factor = {"Mul": each, "Div": 1 / each}[operator] if operator in ("Mul", "Div") else np.ones_like(bias)
    added = {"Add": each, "Sub": -each}[operator] if operator in ("Add", "Sub") else np.zeros_like(bias)
    return _cut(cut.features, weight * factor[:, None], bias * factor + added, cut.answer)


def _gemm(values: GraphValues, node: Any, answer: str) -> OnnxCut | None:
    given = {item.name: item for item in node.attribute}
    weight = values.constant(node.input[1])
    bias = values.constant(node.input[2]) if len(node.input) > 2 and node.input[2] else None
    if weight is None or ("transA" in given and given["transA"].i):
        return None
    transposed = weight if "transB" in given and given["transB"].i else weight.T
    alpha, beta = (given[name].f if name in given else 1.0 for name in ("alpha", "beta"))
    return _cut(node.input[0], alpha * transposed, None if bias is None else beta * bias, answer)


def _cut(features: str, weight: NDArray[Any], bias: NDArray[Any] | None, answer: str) -> OnnxCut | None:
    """Make a cut from weights [C, d]; None where these are no matrix, or the bias is none of the classes."""
    if weight.ndim != 2:
        return None
    full = np.zeros(len(weight), np.float32) if bias is None else np.asarray(bias, np.float32).reshape(-1)
    if full.size == 1:
        full = np.full(len(weight), full[0], np.float32)
    if len(full) != len(weight):
        return None
    made = LinearClassifier(weight=np.ascontiguousarray(weight, np.float32), bias=np.ascontiguousarray(full))
    return OnnxCut(features=features, classifier=made, answer=answer)

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
_MOST_STEPS = 16


@dataclass(frozen=True, kw_only=True, eq=False)
class OnnxCut:
    """A place to cut a graph.

    Args:
        features: name of the tensor of the features.
        classifier: the linear layer that takes it.
    """

    features: str
    classifier: LinearClassifier


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
            if node.op_type == "Constant":
                tensor = next((item.t for item in node.attribute if item.name == "value"), None)
        if tensor is None:
            return None
        try:
            return np.asarray(onnx.numpy_helper.to_array(tensor, base_dir=str(self._folder)), dtype=np.float32)
        except (OSError, ValueError, TypeError, onnx.checker.ValidationError) as error:
            raise DataError(f"The weights {name!r} cannot be read ({error}); copy all files of the network.") from error


def find_cut(values: GraphValues, outputs: list[str]) -> OnnxCut | None:
    """Find the linear layer that gives the first output that has one: a Gemm, or a MatMul and an Add perhaps.

    Args:
        values: of the graph.
        outputs: names of its outputs.
    """
    for output in outputs:
        name = output
        for _ in range(_MOST_STEPS):
            node = values.producers.get(name)
            if node is None:
                break
            if (cut := _linear(values, node)) is not None:
                return cut
            if node.op_type not in _AFTER:
                break
            name = node.input[0]
    return None


def _linear(values: GraphValues, node: Any) -> OnnxCut | None:
    if node.op_type == "Gemm":
        return _gemm(values, node)
    if node.op_type == "MatMul":
        weight = values.constant(node.input[1])
        return None if weight is None else _cut(node.input[0], weight.T, None)
    if node.op_type == "Add":
        for product, added in (node.input, reversed(node.input)):
            before, bias = values.producers.get(product), values.constant(added)
            if before is not None and before.op_type == "MatMul" and bias is not None:
                weight = values.constant(before.input[1])
                return None if weight is None else _cut(before.input[0], weight.T, bias)
    return None


def _gemm(values: GraphValues, node: Any) -> OnnxCut | None:
    given = {item.name: item for item in node.attribute}
    weight = values.constant(node.input[1])
    bias = values.constant(node.input[2]) if len(node.input) > 2 and node.input[2] else None
    if weight is None or ("transA" in given and given["transA"].i):
        return None
    transposed = weight if "transB" in given and given["transB"].i else weight.T
    alpha, beta = (given[name].f if name in given else 1.0 for name in ("alpha", "beta"))
    return _cut(node.input[0], alpha * transposed, None if bias is None else beta * bias)


def _cut(features: str, weight: NDArray[Any], bias: NDArray[Any] | None) -> OnnxCut | None:
    """Make a cut from weights [C, d]; None where these are no matrix, or the bias is none of the classes."""
    if weight.ndim != 2:
        return None
    full = np.zeros(len(weight), np.float32) if bias is None else np.asarray(bias, np.float32).reshape(-1)
    if full.size == 1:
        full = np.full(len(weight), full[0], np.float32)
    if len(full) != len(weight):
        return None
    made = LinearClassifier(weight=np.ascontiguousarray(weight, np.float32), bias=np.ascontiguousarray(full))
    return OnnxCut(features=features, classifier=made)

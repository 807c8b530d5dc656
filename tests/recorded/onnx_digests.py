"""Digests of ONNX files in three depths, free of what varies without a change of the model.

PyTorch's exporter writes stack traces into every node: paths, line numbers and lines of source files, and the names of
classes and modules. They depend on the folder of the installation, so bytes of whole files say nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, ValueInfoProto, numpy_helper

_VERSION = "mn.version"


def describe_onnx(path: Path) -> dict[str, Any]:
    """Digests and statistics of an ONNX file.

    Returns:
        ``graph``: digest of everything but the exporter's notes and our own version: weights, names, order.
        ``computation``: the same with names and order of inner values and weights left out.
        ``structure``: digest of nodes, names, attributes and shapes, without the values of weights.
        ``interface``: names, types and shapes of inputs and outputs, opset, and our metadata.
        ``norms``: L2 norm of every weight, by name.
    """
    model = onnx.load(str(path))
    _strip(model)
    interface = {
        "inputs": [_described(value) for value in model.graph.input],
        "outputs": [_described(value) for value in model.graph.output],
        "opset": {item.domain: item.version for item in model.opset_import},
        "metadata": {item.key: item.value for item in model.metadata_props},
    }
    arrays = _arrays(model.graph)
    return {
        "graph": hashlib.sha256(model.SerializeToString(deterministic=True)).hexdigest(),
        "computation": _digest([interface["inputs"], interface["outputs"], _computation(model.graph, {"": ""})]),
        "structure": _digest([interface, _structure(model.graph)]),
        "interface": interface,
        "norms": {name: float(np.linalg.norm(array.astype(np.float64))) for name, array in arrays.items()},
    }


def _strip(model: ModelProto) -> None:
    """Remove the exporter's notes and our own version."""
    assert not model.functions
    _strip_graph(model.graph)
    kept = {item.key: item.value for item in model.metadata_props if item.key != _VERSION}
    onnx.helper.set_model_props(model, dict(sorted(kept.items())))
    model.ClearField("producer_version")


def _strip_graph(graph: GraphProto) -> None:
    for item in (graph, *graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer):
        item.ClearField("doc_string")
        item.ClearField("metadata_props")
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                _strip_graph(attribute.g)


def _arrays(graph: GraphProto) -> dict[str, np.ndarray]:
    return {item.name: numpy_helper.to_array(item) for item in graph.initializer}


def _structure(graph: GraphProto) -> list[Any]:
    """Nodes as they are, and the shapes of weights."""
    nodes = [
        [node.domain, node.op_type, node.name, *map(list, (node.input, node.output)), _attributes(node, _structure)]
        for node in graph.node
    ]
    return [nodes, [[name, str(array.dtype), list(array.shape)] for name, array in _arrays(graph).items()]]


def _computation(graph: GraphProto, outer: dict[str, str]) -> list[Any]:
    """Nodes in order, inner values by number, weights by what they hold.

    Args:
        outer: what names of the graph around this one stand for.
    """
    names = outer | {value.name: value.name for value in (*graph.input, *graph.output)}
    for name, array in _arrays(graph).items():
        content = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
        names[name] = f"{array.dtype} {array.shape} {content}"
    lines = []
    for node in graph.node:
        for output in node.output:
            names.setdefault(output, f"value {len(names)}")
        inputs, outputs = ([names[name] for name in group] for group in (node.input, node.output))
        attributes = _attributes(node, lambda inner: _computation(inner, names))
        lines.append([node.domain, node.op_type, inputs, outputs, attributes])
    return lines


def _attributes(node: NodeProto, describe: Callable[[GraphProto], list[Any]]) -> list[Any]:
    """Attributes of a node as plain values, by name; graphs inside it as ``describe`` says."""
    found = []
    for item in sorted(node.attribute, key=lambda item: str(item.name)):
        value = onnx.helper.get_attribute_value(item)
        if item.type == AttributeProto.GRAPH:
            value = describe(value)
        elif item.type == AttributeProto.TENSOR:
            array = numpy_helper.to_array(value)
            value = [str(array.dtype), list(array.shape), array.ravel().tolist()]
        found.append([str(item.name), repr(value)])
    return found


def _described(value: ValueInfoProto) -> list[Any]:
    tensor = value.type.tensor_type
    dims = [dim.dim_param or dim.dim_value for dim in tensor.shape.dim]
    return [value.name, onnx.TensorProto.DataType.Name(tensor.elem_type), dims]


def _digest(plain: Any) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()

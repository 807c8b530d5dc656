"""Operators on both sides of a user's network: its type of pixels, and one vector of float32 for each image.

Shapes: pixels [batch, …], raw features [batch, d], [batch, d, h, w], [batch, h, w, d] or [batch, T, d],
features [batch, d].
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from mnexport.errors import GraphError
from mnexport.graph import BATCH
from mntrain.networks.pixels import OFF_TIES
from mntrain.networks.pooling import averaged_axes

_OUT = "vectors"


def give_pixels_as(pixels: ModelProto, element_type: int) -> None:
    """Convert the output of a graph of pixels to the type that a network takes; the graph is changed.

    Whole numbers are rounded and limited to 0..255; values of 16 bits are rounded before they are converted.

    Args:
        pixels: stored pixels → input of the network, float32.
        element_type: of that input, as ONNX numbers types.
    """
    if element_type == TensorProto.FLOAT:
        return
    graph = pixels.graph
    name, made = str(graph.output[0].name), "typed_input"
    nodes: list[NodeProto] = []
    if element_type == TensorProto.UINT8:
        graph.initializer.extend(
            numpy_helper.from_array(np.array(value, np.float32), constant)
            for constant, value in (("low", 0), ("high", 255), ("off_ties", OFF_TIES))
        )
        nodes += [
            helper.make_node("Add", [name, "off_ties"], ["shifted"], "shifted"),
            helper.make_node("Round", ["shifted"], ["rounded"], "rounded"),
            helper.make_node("Clip", ["rounded", "low", "high"], ["limited"], "limited"),
        ]
        name = "limited"
    if element_type == TensorProto.FLOAT16:
        added, constants = _rounded_to_float16(name)
        graph.initializer.extend(constants)
        nodes, name = [*nodes, *added], added[-1].output[0]
    graph.node.extend([*nodes, helper.make_node("Cast", [name], [made], made, to=element_type)])
    graph.output[0].name = made
    graph.output[0].type.tensor_type.elem_type = element_type


def _rounded_to_float16(name: str) -> tuple[list[NodeProto], list[TensorProto]]:
    """Round float32 to values that float16 has, by arithmetic; returns nodes and constants.

    ONNX Runtime computes most of float16 in float32 on CPUs, and drops the conversion to float16 and back between a
    graph of float32 and its own. The first layer would get other values than in the network's own file.
    """
    constants = (("split", 2**13 + 1), ("least_normal", 2**-14), ("fixed_point", 0.75))
    nodes = [
        # Of the 24 bits of x, x·(2^13 + 1) − (x·(2^13 + 1) − x) keeps the first 11, as float16 has.
        helper.make_node("Mul", [name, "split"], ["spread"], "spread"),
        helper.make_node("Sub", ["spread", name], ["rest"], "rest"),
        helper.make_node("Sub", ["spread", "rest"], ["first_bits"], "first_bits"),
        # Below 2^-14 float16 has steps of 2^-24, as float32 has from 0.5 to 1.
        helper.make_node("Add", [name, "fixed_point"], ["raised"], "raised"),
        helper.make_node("Sub", ["raised", "fixed_point"], ["steps"], "steps"),
        helper.make_node("Abs", [name], ["amount"], "amount"),
        helper.make_node("Less", ["amount", "least_normal"], ["is_small"], "is_small"),
        helper.make_node("Where", ["is_small", "steps", "first_bits"], ["halves"], "halves"),
    ]
    return nodes, [numpy_helper.from_array(np.array(value, np.float32), constant) for constant, value in constants]


def vectors_of(features: npt.NDArray[Any], width: int, size: tuple[int, int], opset: int) -> ModelProto | None:
    """Make the graph from raw features to one vector for each image; None where they are that.

    A map of one place is flattened, places or tokens are averaged, along the axes that training took.

    Args:
        features: raw, of any images.
        width: d.
        size: height and width of the input of the network.
        opset: ONNX operator set.

    Raises:
        GraphError: another shape.
    """
    if features.dtype == np.float32 and features.shape[1:] == (width,):
        return None
    name, nodes, constants = "raw", [], []
    if features.dtype != np.float32:
        nodes.append(helper.make_node("Cast", [name], ["floats"], "floats", to=TensorProto.FLOAT))
        name = "floats"
    if features.shape[1:] in ((width, 1, 1), (1, 1, width)):
        nodes.append(helper.make_node("Flatten", [name], [_OUT], _OUT, axis=1))
    elif (axes := _averaged(features.shape, size, width)) is not None:
        constants.append(numpy_helper.from_array(np.array(axes, np.int64), "axes"))
        nodes.append(helper.make_node("ReduceMean", [name, "axes"], [_OUT], _OUT, keepdims=0))
    elif features.shape[1:] == (width,):
        nodes[-1].output[0] = _OUT
    else:
        raise GraphError(
            f"The network gives features of shape {list(features.shape[1:])} for each image, and the head takes "
            f"{width}; train the head on features of this network."
        )
    taken = helper.make_tensor_value_info(
        "raw", helper.np_dtype_to_tensor_dtype(features.dtype), [BATCH, *features.shape[1:]]
    )
    given = helper.make_tensor_value_info(_OUT, TensorProto.FLOAT, [BATCH, width])
    graph = helper.make_graph(nodes, "vectors", [taken], [given], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def _averaged(shape: Sequence[int], size: tuple[int, int], width: int) -> tuple[int, ...] | None:
    """Axes of places or tokens; None for another shape."""
    axes = averaged_axes(shape, size, width) if len(shape) in (3, 4) else None
    if axes is None:
        return None
    (left,) = (length for axis, length in enumerate(shape) if axis and axis not in axes)
    return axes if left == width else None

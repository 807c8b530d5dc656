"""Patterns of iFiLM in an exported graph.

Shapes: maps x [B, C, H, W], pooled maps p [B, C], keys [C, S], attention ω [B, S], table [S, 2C] of factors and shifts.

    ω = softmax(unit(mean(x) g + c) · keys),    factor, shift = ω · table,    result = ReLU(x · factor + shift)
"""

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
from onnx import NodeProto

from mnexport.blocked.index import GraphIndex, attributes

Array = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class AffineMap:
    """Affine map of iFiLM: a factor and a shift for every image and channel.

    Args:
        maps: name of x.
        scale: g [C] of the normalisation.
        shift: c [C] of the normalisation.
        keys: [C, S], of length 1 / temperature.
        table: factors and shifts side by side [S, 2C].
        result: name of the output, behind the ReLU if there is one.
        relu: a ReLU follows.
        product: the node x · factor, behind everything that the map needs.
        nodes: every node from the mean to the result.
    """

    maps: str
    scale: Array
    shift: Array
    keys: Array
    table: Array
    result: str
    relu: bool
    product: NodeProto
    nodes: tuple[NodeProto, ...]

    @property
    def channels(self) -> int:
        """Number of channels C."""
        return int(self.table.shape[1]) // 2


def affine_maps(index: GraphIndex) -> list[AffineMap]:
    """Find every affine map of a graph."""
    candidates = (_affine_map(index, node) for node in index.nodes if node.op_type == "Split")
    return [item for item in candidates if item is not None]


def _affine_map(index: GraphIndex, split: NodeProto) -> AffineMap | None:
    """Recognise the map that a split into factors and shifts belongs to; None where a node or shape differs."""
    reshape = _made_by(index, split.input[0], "Reshape")
    lookup = reshape and _made_by(index, reshape.input[0], "MatMul")
    softmax = lookup and _made_by(index, lookup.input[0], "Softmax")
    scores = softmax and _made_by(index, softmax.input[0], "MatMul")
    quotient = scores and _made_by(index, scores.input[0], "Div")
    limit = quotient and _made_by(index, quotient.input[1], "Clip")
    norm = limit and _made_by(index, limit.input[0], "ReduceL2")
    if not (reshape and lookup and softmax and scores and quotient and limit and norm and len(split.output) == 2):
        return None
    if norm.input[0] != quotient.input[0]:
        return None
    shifted = _made_by(index, norm.input[0], "Add")
    scaled = shifted and next((n for n in map(index.producer, shifted.input) if n and n.op_type == "Mul"), None)
    mean = scaled and next((n for n in map(index.producer, scaled.input) if n and n.op_type == "ReduceMean"), None)
    product = index.only_consumer(split.output[0], "Mul")
    total = product and index.only_consumer(product.output[0], "Add")
    if not (shifted and scaled and mean and product and total):
        return None
    maps = mean.input[0]
    shape = index.shape(maps)
    relu = index.only_consumer(total.output[0], "Relu")
    inner = [mean, scaled, shifted, norm, limit, quotient, scores, softmax, lookup, reshape, split, product]
    scale = index.constant(_other(scaled, mean.output[0]))
    shift = index.constant(_other(shifted, scaled.output[0]))
    keys, table = index.constant(scores.input[1]), index.constant(lookup.input[1])
    if scale is None or shift is None or keys is None or table is None or len(shape) != 4 or -1 in shape[1:]:
        return None
    channels = shape[1]
    matches = (
        (scale.shape, shift.shape) == ((channels,), (channels,))
        and (keys.shape, table.shape) == ((channels, len(table)), (len(table), 2 * channels))
        and is_pooling(index, mean)
        and maps in product.input
        and split.output[1] in total.input
        and all(_inside(index, node, [*inner, total]) for node in inner)
    )
    if not matches:
        return None
    nodes = (*inner, total, *([] if relu is None else [relu]))
    return AffineMap(
        maps=maps,
        scale=scale,
        shift=shift,
        keys=keys,
        table=table,
        result=nodes[-1].output[0],
        relu=relu is not None,
        product=product,
        nodes=nodes,
    )


def _made_by(index: GraphIndex, name: str, operator: str) -> NodeProto | None:
    node = index.producer(name)
    return node if node is not None and node.op_type == operator else None


def _other(node: NodeProto, name: str) -> str:
    """Return the other of two inputs."""
    return str(node.input[1] if node.input[0] == name else node.input[0])


def is_pooling(index: GraphIndex, mean: NodeProto) -> bool:
    """Tell if a mean maps [B, C, H, W] to [B, C]."""
    axes = index.constant(mean.input[1]) if len(mean.input) > 1 else None
    return axes is not None and sorted(axes.tolist()) == [2, 3] and attributes(mean).get("keepdims", 1) == 0


def _inside(index: GraphIndex, node: NodeProto, nodes: list[NodeProto]) -> bool:
    """Tell if only ``nodes`` take the outputs of ``node``."""
    names = {name for item in nodes for name in item.output}
    return all(
        name not in index.outputs and all(user.output[0] in names for user in index.consumers(name))
        for name in node.output
    )

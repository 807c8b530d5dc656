"""Cut of an exported graph into its backbone and the rest."""

from collections.abc import Iterable
from dataclasses import dataclass

from onnx import NodeProto

from mnexport.blocked.index import GraphIndex
from mnexport.blocked.patterns import AffineMap


@dataclass(frozen=True, kw_only=True, eq=False)
class Backbone:
    """Part of a graph that works on maps.

    Args:
        index: the graph.
        images: name of the input of the first convolution.
        features: name of the output, [B, d].
        nodes: between the two.
        affine: affine maps among them.
    """

    index: GraphIndex
    images: str
    features: str
    nodes: tuple[NodeProto, ...]
    affine: tuple[AffineMap, ...]


def find_backbone(index: GraphIndex, affine: list[AffineMap]) -> Backbone | None:
    """Find the nodes from the first convolution to the first vectors that everything behind them depends on.

    Returns:
        The backbone; None where the graph has no convolution or no such vectors.
    """
    first = next((node for node in index.nodes if node.op_type == "Conv"), None)
    if first is None:
        return None
    images = str(first.input[0])
    shape = index.shape(images)
    last = max(index.nodes.index(node) for item in affine for node in item.nodes)
    ends = (name for node in index.nodes[last + 1 :] for name in node.output if len(index.shape(name)) == 2)
    end = next((name for name in ends if not _reaches(index, images, index.outputs, around=name)), None)
    if end is None or len(shape) != 4 or -1 in shape[1:] or index.shape(end)[1] == -1:
        return None
    behind, needed = _closure(index, [images]) - {images}, _needed(index, end)
    nodes = tuple(node for node in index.nodes if any(name in behind and name in needed for name in node.output))
    inside = {name for node in nodes for name in node.output} | {images, ""}
    taken = {name for node in nodes for name in node.input}
    if any(name not in inside and index.constant(name) is None for name in taken):
        return None  # a value of all images, where the backbone takes some of them at a time
    return Backbone(index=index, images=images, features=end, nodes=nodes, affine=tuple(affine))


def _reaches(index: GraphIndex, start: str, goals: Iterable[str], around: str | None) -> bool:
    return not _closure(index, [start], around).isdisjoint(goals)


def _closure(index: GraphIndex, starts: list[str], around: str | None = None) -> set[str]:
    """Collect every value that depends on one of ``starts``, on ways that do not pass ``around``."""
    reached, open_ends = set(starts), list(starts)
    while open_ends:
        for node in index.consumers(open_ends.pop()):
            new = [name for name in node.output if name not in reached and name != around]
            reached.update(new)
            open_ends += new
    return reached


def _needed(index: GraphIndex, end: str) -> set[str]:
    """Collect every value that ``end`` is computed from, and ``end`` itself."""
    needed, open_ends = {end}, [end]
    while open_ends:
        node = index.producer(open_ends.pop())
        new = [] if node is None else [name for name in node.input if name not in needed]
        needed.update(new)
        open_ends += new
    return needed


def split_nodes(index: GraphIndex, backbone: Backbone) -> tuple[list[NodeProto], list[NodeProto]]:
    """Split the other nodes into those that do not need the backbone, and those behind it."""
    inside = {node.output[0] for node in backbone.nodes}
    behind = _closure(index, [backbone.features]) - {backbone.features}
    outside = [node for node in index.nodes if node.output[0] not in inside]
    return [n for n in outside if n.output[0] not in behind], [n for n in outside if n.output[0] in behind]

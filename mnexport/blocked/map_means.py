"""Means of maps, taken where there are the fewest numbers to add up.

A residual sum has four times the channels of what its last convolution takes. The mean of a convolution of 1×1 is the
same product with the mean of its input, so that the mean of the sum follows from the mean of a smaller map:

    sum = W x + shortcut        mean(sum) = W mean(x) + mean(shortcut)

Shapes: maps [B, C, H, W], in the blocked layout with L lanes; means, factors and shifts [B, L].
"""

from typing import Any

import numpy.typing as npt
from onnx import NodeProto, helper

from mnexport.blocked.index import GraphIndex, attributes
from mnexport.blocked.layout import DOMAIN
from mnexport.blocked.map_layouts import MapLayouts
from mnexport.blocked.node_list import NodeList

Array = npt.NDArray[Any]
# A smaller map has at most this part of the channels of the sum: the product is a node more.
_SMALLER = 0.5


class MapMeans:
    """Means of the maps of a backbone; nodes that compute them are added.

    Args:
        index: the source graph.
        rows: B.
        layouts: of its values.
        node_list: of the new graph.
    """

    def __init__(self, index: GraphIndex, rows: int, layouts: MapLayouts, node_list: NodeList) -> None:
        self._index, self._rows, self._layouts, self._node_list = index, rows, layouts, node_list
        self._known: dict[str, str] = {}  # value → name of its mean
        self._mapped: dict[str, tuple[str, str, str]] = {}  # value → mean, factor and shift that its mean follows from

    def of(self, maps: str) -> str:
        """Name the mean [B, L] of maps that are in the layout."""
        if maps not in self._known:
            name = f"{self._layouts.name(maps)}:mean"
            self._known[maps] = self._of_sum(maps, name) or self.pool(maps, name)
        return self._known[maps]

    def affine(self, maps: str, means: str, factor: str, shift: str) -> None:
        """Register maps that are an affine map of others, so that their mean is one of the others' mean."""
        self._mapped[maps] = means, factor, shift

    def pool(self, maps: str, output: str) -> str:
        """Add up maps; the mean is called ``output``."""
        pooled = f"{output}:pooled"
        self._node_list.add("GlobalAveragePool", [self._layouts.blocked(maps)], pooled, DOMAIN)
        return self._node_list.reshaped(pooled, [self._rows, len(self._layouts.lanes(maps))], output)

    def _of_sum(self, maps: str, output: str) -> str | None:
        """Derive the mean of a residual sum; None where that is not possible, or takes as much."""
        node = self._index.producer(maps)
        if node is None or node.op_type != "Add":
            return None
        for name, shortcut in (tuple(node.input), tuple(reversed(node.input))):
            conv = self._index.producer(name)
            if conv is None or conv.op_type != "Conv" or not self._is_known(shortcut):
                continue
            weight = self._weight(conv)
            if weight is None:
                continue
            source, lanes = conv.input[0], self._layouts.lanes(maps)
            spread = self._layouts.lanes(source).spread(lanes.spread(weight, axis=0), axis=1)
            constant = self._node_list.constant(f"{maps}:product", spread.T)
            inputs = [self.of(source), constant, self._shortcut(shortcut)]
            self._node_list.nodes.append(helper.make_node("Gemm", inputs, [output]))
            return output
        return None

    def _weight(self, conv: NodeProto) -> Array | None:
        """Return the weight [C, C'] of a convolution of 1×1 without bias, of fewer channels that are in the layout."""
        weight, settings = self._index.constant(conv.input[1]), attributes(conv)
        if weight is None or len(conv.input) > 2 or not self._layouts.is_blocked(conv.input[0]):
            return None
        plain = settings.get("group", 1) == 1 and not any(settings.get("pads", ()))
        whole = weight.shape[2:] == (1, 1) and all(step == 1 for step in settings.get("strides", ()))
        fewer = weight.shape[1] <= _SMALLER * weight.shape[0]
        return weight[:, :, 0, 0] if plain and whole and fewer else None

    def _is_known(self, maps: str) -> bool:
        return maps in self._known or maps in self._mapped

    def _shortcut(self, maps: str) -> str:
        """Name the mean of maps whose mean is known, or follows from that of others."""
        if maps not in self._known:
            means, factor, shift = self._mapped[maps]
            name = f"{self._layouts.name(maps)}:mean"
            scaled = self._node_list.add("Mul", [means, factor], f"{name}:scaled")
            self._known[maps] = self._node_list.add("Add", [scaled, shift], name)
        return self._known[maps]

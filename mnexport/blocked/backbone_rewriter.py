"""Rewriting of a backbone for a fixed number of images, with all maps in ONNX Runtime's blocked layout.

ONNX Runtime leaves the layout for a factor that differs between images: its product takes maps of one shape, its
convolutions constant filters. But the kernel of the blocked convolution reads its filter when it runs. So an affine map
for every image and channel, with the ReLU behind it, is one depthwise convolution of 1×1: images and channels are taken
for B·C channels of one image, each with a factor and a shift of its own. That number is fixed in the graph, hence B is.

Shapes: maps [B, C, H, W], in the blocked layout [B, L, H, W] with L lanes, C filled up to whole blocks with zeros;
means, factors and shifts [B, L].
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import NodeProto, helper

from mnexport.blocked.channel_padding import ChannelPadding
from mnexport.blocked.cut import Backbone
from mnexport.blocked.index import attributes, with_names
from mnexport.blocked.layout import DOMAIN, pack_filter
from mnexport.blocked.map_layouts import MapLayouts
from mnexport.blocked.map_means import MapMeans
from mnexport.blocked.node_list import NodeList
from mnexport.blocked.patterns import AffineMap, is_pooling

Array = npt.NDArray[Any]

_POOLS = ("MaxPool", "AveragePool", "GlobalAveragePool")
# Normalisation goes into the convolution before it where no channel is scaled to less than this part of the largest.
_SMALLEST_SCALE = 1e-3


class BlockedBackbone:
    """Nodes of a backbone for a fixed number of images.

    Args:
        backbone: in the ordinary layout.
        rows: B.
        block: of the layout.
        prefix: of all names.

    Attributes:
        rows: B.
        images: name of the input [B, channels, H, W].
        features: name of the output [B, d].
        reordered: number of maps that leave the layout or enter it.
    """

    def __init__(self, backbone: Backbone, rows: int, block: int, prefix: str) -> None:
        self._index, self._block = backbone.index, block
        self._node_list = NodeList(prefix)
        self._layouts = MapLayouts(backbone, block, prefix, self._node_list)
        self._foldable = {item.maps: item for item in backbone.affine if self._can_fold(item)}
        self._folded: set[str] = set()  # maps that come normalised out of their convolution
        self._means = MapMeans(self._index, rows, self._layouts, self._node_list)
        self.rows = rows
        self._emit(backbone)
        self.images = self._layouts.name(backbone.images)
        self.features = self._layouts.ordinary(backbone.features)
        self.reordered = self._layouts.reordered

    @property
    def nodes(self) -> list[NodeProto]:
        """Operators in an order in which they can be computed."""
        return self._node_list.nodes

    @property
    def constants(self) -> dict[str, Array]:
        """Constants of the operators, by name."""
        return self._node_list.constants

    def _emit(self, backbone: Backbone) -> None:
        owners = {node.output[0]: item for item in backbone.affine for node in item.nodes}
        left_alone: set[str] = set()
        for node in backbone.nodes:
            item = owners.get(node.output[0])
            if item is not None and node is item.nodes[0] and not self._layouts.can_block(item.maps):
                left_alone.add(item.result)
            if item is None or item.result in left_alone:
                self._node(node)
            elif node is item.product:
                self._affine(item)

    def _node(self, node: NodeProto) -> None:
        if self._layouts.is_ordinary(node.output[0]):  # computed with the nodes before it
            return
        by_operator = {"Conv": self._conv, "Add": self._sum, "Concat": self._concat, "ReduceMean": self._pooling}
        by_operator |= dict.fromkeys(("Relu", *_POOLS), self._layout_operator)
        handle = by_operator.get(node.op_type)
        if handle is not None and handle(node):
            return
        for name in node.input:
            self._layouts.ordinary(name)
        self._layouts.add_ordinary(*node.output)
        self._node_list.nodes.append(with_names(node, self._layouts.name))

    def _conv(self, node: NodeProto) -> bool:
        index, settings = self._index, attributes(node)
        source, output = node.input[0], node.output[0]
        weight = index.constant(node.input[1])
        bias = index.constant(node.input[2]) if len(node.input) > 2 else None
        plain = settings.get("group", 1) == 1 and settings.get("auto_pad", b"NOTSET") == b"NOTSET"
        if weight is None or weight.ndim != 4 or not plain or (len(node.input) > 2 and bias is None):
            return False
        narrow = weight.shape[1] < self._block and not self._layouts.is_blocked(source)
        if not (narrow or self._layouts.can_block(source)):
            return False
        # Named by the output: two convolutions may share a filter.
        stem, item = output, self._foldable.get(output)
        if item is not None:
            weight = weight * item.scale[:, None, None, None]
            bias = item.shift + (0 if bias is None else bias * item.scale)
            self._folded.add(output)
        taken = self._layouts.ordinary(source) if narrow else self._layouts.blocked(source)
        lanes = ChannelPadding.of(weight.shape[0], self._block)
        padded = lanes.spread(weight if narrow else self._layouts.lanes(source).spread(weight, axis=1), axis=0)
        inputs = [taken, self._node_list.constant(f"{stem}:packed", pack_filter(padded, self._block))]
        if bias is not None:
            inputs.append(self._node_list.constant(f"{stem}:bias", lanes.spread(bias, axis=0)))
        conv = helper.make_node("Conv", inputs, [self._layouts.add_blocked(output, lanes)], domain=DOMAIN, **settings)
        if index.only_consumer(output, "Add") is not None:
            self._layouts.waiting[output] = conv
        else:
            self._node_list.nodes.append(conv)
        return True

    def _sum(self, node: NodeProto) -> bool:
        """Add two maps of one shape, as part of the convolution that made one of them if there is one."""
        first, second = node.input
        if (
            first == second
            or not self._layouts.is_blocked(first)
            or not self._layouts.is_blocked(second)
            or self._layouts.lanes(first) != self._layouts.lanes(second)
        ):
            return False
        if self._index.shape(first)[1:] != self._index.shape(second)[1:]:
            return False
        conv = self._layouts.waiting.pop(second, None)
        rest = self._layouts.blocked(first) if conv is not None else None
        if conv is None:
            conv = self._layouts.waiting.pop(first, None)
            rest = self._layouts.blocked(second)
        made = self._layouts.add_blocked(node.output[0], self._layouts.lanes(first))
        if conv is None or rest is None:
            self._node_list.nodes.append(
                helper.make_node("Add", [self._layouts.blocked(first), self._layouts.blocked(second)], [made])
            )
        else:
            conv.input.extend([""] * (3 - len(conv.input)) + [rest])
            conv.output[0] = made
            self._node_list.nodes.append(conv)
        return True

    def _concat(self, node: NodeProto) -> bool:
        if attributes(node)["axis"] not in (1, -3) or not all(self._layouts.is_blocked(name) for name in node.input):
            return False
        parts = [self._layouts.blocked(name) for name in node.input]
        made = self._layouts.add_blocked(
            node.output[0], ChannelPadding.joined([self._layouts.lanes(name) for name in node.input])
        )
        self._node_list.nodes.append(helper.make_node("Concat", parts, [made], axis=1))
        return True

    def _layout_operator(self, node: NodeProto) -> bool:
        """Rewrite ReLU and pools, which the layout has too."""
        settings, source = attributes(node), node.input[0]
        supported = len(node.output) == 1 and settings.get("auto_pad", b"NOTSET") == b"NOTSET"
        if not self._layouts.is_blocked(source) or not supported or settings.get("storage_order"):
            return False
        if node.op_type == "AveragePool" and settings.get("ceil_mode"):  # counts differently at the edge
            return False
        domain = DOMAIN if node.op_type in _POOLS else ""
        inputs, made = (
            [self._layouts.blocked(source)],
            self._layouts.add_blocked(node.output[0], self._layouts.lanes(source)),
        )
        self._node_list.nodes.append(helper.make_node(node.op_type, inputs, [made], domain=domain, **settings))
        return True

    def _pooling(self, node: NodeProto) -> bool:
        source, output = node.input[0], node.output[0]
        if not self._layouts.is_blocked(source) or not is_pooling(self._index, node):
            return False
        lanes = self._layouts.lanes(source)
        self._means.pool(source, self._layouts.vectors(output, lanes))
        self._layouts.drop_zeros(output, lanes)
        return True

    def _affine(self, item: AffineMap) -> None:
        means, factor, shift = self._lookup(item)
        mean = None if item.relu else self._index.only_consumer(item.result, "ReduceMean")
        if mean is not None and is_pooling(self._index, mean):
            self._affine_means(mean.output[0], means, factor, shift, self._layouts.lanes(item.maps))
        else:
            self._affine_maps(item, factor, shift)

    def _lookup(self, item: AffineMap) -> tuple[str, str, str]:
        """Look up factors and shifts; the names of pooled maps, factors and shifts."""
        channels, name, stem = item.channels, self._layouts.name(item.result), item.result
        self._layouts.blocked(item.maps)
        lanes = self._layouts.lanes(item.maps)
        factors, shifts = item.table[:, :channels], item.table[:, channels:]
        means = pooled = self._means.of(item.maps)
        if item.maps in self._folded:
            factors = factors / item.scale
            shifts = shifts - factors * item.shift
        else:
            scaled = self._node_list.product("Mul", pooled, f"{stem}:norm.scale", lanes.spread(item.scale, axis=0))
            pooled = self._node_list.product("Add", scaled, f"{stem}:norm.shift", lanes.spread(item.shift, axis=0))
        unit = self._node_list.add("LpNormalization", [pooled], f"{name}:unit", axis=-1, p=2)
        scores = self._node_list.product("Gemm", unit, f"{stem}:keys", lanes.spread(item.keys, axis=0))
        weights = self._node_list.add("Softmax", [scores], f"{name}:weights", axis=-1)
        factor = self._node_list.product("Gemm", weights, f"{stem}:factors", lanes.spread(factors, axis=1))
        shift = self._node_list.product("Gemm", weights, f"{stem}:shifts", lanes.spread(shifts, axis=1))
        if not item.relu:
            self._means.affine(item.result, means, factor, shift)
        return means, factor, shift

    def _affine_means(self, output: str, means: str, factor: str, shift: str, lanes: ChannelPadding) -> None:
        """Map the means alone, where only the mean of the affine map is used: it equals the affine map of the mean."""
        vectors = self._layouts.vectors(output, lanes)
        scaled = self._node_list.add("Mul", [means, factor], f"{vectors}:scaled")
        self._node_list.add("Add", [scaled, shift], vectors)
        self._layouts.drop_zeros(output, lanes)

    def _affine_maps(self, item: AffineMap, factor: str, shift: str) -> None:
        rows, name = self.rows, self._layouts.name(item.result)
        _, _, height, width = self._index.shape(item.maps)
        maps, lanes = self._layouts.blocked(item.maps), self._layouts.lanes(item.maps)
        filters = self._node_list.reshaped(factor, [rows * len(lanes), 1, 1, 1], f"{name}:filters")
        biases = self._node_list.reshaped(shift, [rows * len(lanes)], f"{name}:biases")
        made = self._layouts.add_blocked(item.result, lanes)
        result = made
        if rows > 1:
            result = f"{name}:flat"
            maps = self._node_list.reshaped(maps, [1, rows * len(lanes), 1, height * width], f"{name}:maps")
        settings: dict[str, Any] = {"activation": "Relu"} if item.relu else {}
        settings |= {"kernel_shape": [1, 1], "strides": [1, 1], "dilations": [1, 1], "pads": [0, 0, 0, 0]}
        self._node_list.add("Conv", [maps, filters, biases], result, DOMAIN, group=rows * len(lanes), **settings)
        if rows > 1:
            self._node_list.reshaped(result, [rows, len(lanes), height, width], made)

    def _can_fold(self, item: AffineMap) -> bool:
        """Tell if the convolution that made the maps can normalise them: nothing but iFiLM takes them."""
        conv = self._index.producer(item.maps)
        users = {node.output[0] for node in self._index.consumers(item.maps)}
        if conv is None or conv.op_type != "Conv" or not users <= {node.output[0] for node in item.nodes}:
            return False
        size = np.abs(item.scale)
        return bool(size.min() >= _SMALLEST_SCALE * size.max() > 0)

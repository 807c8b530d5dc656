"""Layouts of the values of a new graph: each is in the blocked layout, in the ordinary one, or in both.

Shapes: maps [B, C, H, W], in the blocked layout [B, L, H, W] with L lanes.
"""

from typing import Any

import numpy.typing as npt
from onnx import NodeProto

from mnexport.blocked.channel_padding import ChannelPadding
from mnexport.blocked.cut import Backbone
from mnexport.blocked.layout import DOMAIN
from mnexport.blocked.node_list import NodeList

Array = npt.NDArray[Any]


class MapLayouts:
    """Layouts in which values of a backbone are at hand; nodes that bring a value into the other one are added.

    Args:
        backbone: in the ordinary layout.
        block: of the layout.
        prefix: of all names.
        node_list: of the new graph.

    Attributes:
        waiting: convolutions by output that are not in the list yet, as a sum may become part of them.
        reordered: number of maps that left the layout or entered it.
    """

    def __init__(self, backbone: Backbone, block: int, prefix: str, node_list: NodeList) -> None:
        self._index, self._block, self._prefix, self._node_list = backbone.index, block, prefix, node_list
        self._inner = {name for node in backbone.nodes for name in node.output} | {backbone.images}
        self._blocked: dict[str, str] = {}  # value → its name in the blocked layout
        self._lanes: dict[str, ChannelPadding] = {}  # lanes of these values
        self._ordinary = {backbone.images}
        self.waiting: dict[str, NodeProto] = {}
        self.reordered = 0

    def is_blocked(self, name: str) -> bool:
        """Tell if a value is at hand in the blocked layout."""
        return name in self._blocked

    def is_ordinary(self, name: str) -> bool:
        """Tell if a value is at hand in the ordinary layout."""
        return name in self._ordinary

    def can_block(self, name: str) -> bool:
        """Tell if maps are in the layout, or can enter it."""
        shape = self._index.shape(name)
        return name in self._blocked or (len(shape) == 4 and shape[1] > 0 and shape[1] % self._block == 0)

    def lanes(self, name: str) -> ChannelPadding:
        """Return the lanes of a value in the blocked layout."""
        return self._lanes[name]

    def add_blocked(self, name: str, lanes: ChannelPadding) -> str:
        """Register a value in the blocked layout and return its name there."""
        self._lanes[name] = lanes
        self._blocked[name] = f"{self.name(name)}:blocked"
        return self._blocked[name]

    def add_ordinary(self, *names: str) -> None:
        """Register values in the ordinary layout."""
        self._ordinary.update(names)

    def blocked(self, name: str) -> str:
        """Bring maps into the blocked layout and return their name there."""
        conv = self.waiting.pop(name, None)
        if conv is not None:
            self._node_list.nodes.append(conv)
        if name not in self._blocked:
            blocked = self.add_blocked(name, ChannelPadding.of(self._index.shape(name)[1], self._block))
            self._node_list.add("ReorderInput", [self.name(name)], blocked, DOMAIN)
            self.reordered += 1
        return self._blocked[name]

    def ordinary(self, name: str) -> str:
        """Bring a value into the ordinary layout and return its name there."""
        if name in self._blocked and name not in self._ordinary:
            lanes = self._lanes[name]
            whole = self.name(name) if lanes.trailing else self.vectors(name, lanes)
            count = lanes.channels if lanes.trailing else len(lanes)
            self._node_list.add("ReorderOutput", [self.blocked(name)], whole, DOMAIN, channels=count)
            if not lanes.trailing:
                self._gather_channels(name, lanes)
            self._ordinary.add(name)
            self.reordered += 1
        return self.name(name)

    def vectors(self, name: str, lanes: ChannelPadding) -> str:
        """Name a value [B, C, …] while it still has a number for each lane [B, L, …]."""
        return self.name(name) if lanes.full else f"{self.name(name)}:lanes"

    def drop_zeros(self, name: str, lanes: ChannelPadding) -> None:
        """Reduce a value [B, L] to its channels [B, C]."""
        if not lanes.full:
            self._gather_channels(name, lanes)
        self._ordinary.add(name)

    def name(self, name: str) -> str:
        """Name a value of the source graph in the new graph; constants are added to it."""
        if name in self._inner:
            return f"{self._prefix}:{name}"
        value = self._index.constant(name)
        return name if value is None else self._node_list.constant(name, value)

    def _gather_channels(self, name: str, lanes: ChannelPadding) -> None:
        lane_numbers = self._node_list.constant(f"{name}:places", lanes.lane_of_channel)
        self._node_list.add("Gather", [self.vectors(name, lanes), lane_numbers], self.name(name), axis=1)

"""Padding of channels with zeros: the blocked layout has whole blocks only."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class ChannelPadding:
    """Order of channels and zeros over the lanes of the blocked layout.

    Args:
        channel_of_lane: for each lane its channel, or −1 for zeros.
    """

    channel_of_lane: tuple[int, ...]

    @classmethod
    def of(cls, channels: int, block: int) -> "ChannelPadding":
        """Keep channels in order and fill them up with zeros to whole blocks."""
        return cls((*range(channels), *[-1] * (-channels % block)))

    @classmethod
    def joined(cls, parts: Sequence["ChannelPadding"]) -> "ChannelPadding":
        """Join maps side by side, with channels numbered consecutively."""
        channel_of_lane: list[int] = []
        before = 0
        for part in parts:
            channel_of_lane += [channel if channel < 0 else before + channel for channel in part.channel_of_lane]
            before += part.channels
        return cls(tuple(channel_of_lane))

    def __len__(self) -> int:
        return len(self.channel_of_lane)

    @property
    def channels(self) -> int:
        """Number of channels C."""
        return sum(channel >= 0 for channel in self.channel_of_lane)

    @property
    def full(self) -> bool:
        """Tell if no lane has zeros."""
        return -1 not in self.channel_of_lane

    @property
    def trailing(self) -> bool:
        """Tell if all zeros stand at the end."""
        return self.channel_of_lane[: self.channels] == tuple(range(self.channels))

    @property
    def lane_of_channel(self) -> Array:
        """Lane of each channel, int64 [C]."""
        channel_of_lane = np.array(self.channel_of_lane)
        lanes = np.flatnonzero(channel_of_lane >= 0)
        return lanes[np.argsort(channel_of_lane[lanes])].astype(np.int64)

    def spread(self, values: Array, axis: int) -> Array:
        """Spread values of channels over lanes: [.., C, ..] → [.., L, ..] with zeros."""
        shape = list(values.shape)
        shape[axis] = len(self)
        spread = np.zeros(shape, values.dtype)
        target: list[Any] = [slice(None)] * values.ndim
        target[axis] = self.lane_of_channel
        spread[tuple(target)] = values
        return spread

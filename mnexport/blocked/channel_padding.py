"""Where the channels of maps stand in the blocked layout, which has whole blocks only."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Lanes:
    """Channels and the zeros between them.

    Args:
        holds: for each lane the channel that stands there, or −1.
    """

    holds: tuple[int, ...]

    @classmethod
    def of(cls, channels: int, block: int) -> "Lanes":
        """Channels in their order, and zeros up to whole blocks."""
        return cls((*range(channels), *[-1] * (-channels % block)))

    @classmethod
    def joined(cls, parts: Sequence["Lanes"]) -> "Lanes":
        """Maps side by side, the channels counted through."""
        holds: list[int] = []
        before = 0
        for part in parts:
            holds += [channel if channel < 0 else before + channel for channel in part.holds]
            before += part.channels
        return cls(tuple(holds))

    def __len__(self) -> int:
        return len(self.holds)

    @property
    def channels(self) -> int:
        """C."""
        return sum(channel >= 0 for channel in self.holds)

    @property
    def full(self) -> bool:
        """Whether there are no zeros."""
        return -1 not in self.holds

    @property
    def trailing(self) -> bool:
        """Whether all zeros stand at the end."""
        return self.holds[: self.channels] == tuple(range(self.channels))

    @property
    def places(self) -> Array:
        """For each channel its lane, int64 [C]."""
        holds = np.array(self.holds)
        return np.flatnonzero(holds >= 0)[np.argsort(holds[holds >= 0])].astype(np.int64)

    def spread(self, values: Array, axis: int) -> Array:
        """Values of channels, as values of lanes: [.., C, ..] → [.., L, ..] with zeros."""
        shape = list(values.shape)
        shape[axis] = len(self)
        spread = np.zeros(shape, values.dtype)
        target: list[Any] = [slice(None)] * values.ndim
        target[axis] = self.places
        spread[tuple(target)] = values
        return spread

"""What a training loop sees of a data set: inputs and targets in memory, whatever they are.

Shapes: N examples. inputs [N, …], targets [N].
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

IndexArray = NDArray[np.int64]


class Examples(Protocol):
    """Inputs and targets of one split, contiguous and writable."""

    @property
    def inputs(self) -> NDArray[Any]:
        """[N, …]: uint8 images [N, C, H, W], or float32 rows [N, F]."""

    @property
    def targets(self) -> NDArray[Any]:
        """[N]: int64 labels, or float32 values."""

    def __len__(self) -> int:
        """N."""

"""Examples in memory as a training loop takes them: inputs and targets of images or of rows.

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
        """Inputs [N, …]: uint8 images [N, C, H, W], or float32 rows [N, F]."""

    @property
    def targets(self) -> NDArray[Any]:
        """Targets [N]: int64 labels, or float32 values."""

    def __len__(self) -> int:
        """Number of examples N."""

"""Examples in memory as a training loop takes them: inputs and targets of images or of rows.

Shapes: N examples, T targets. inputs [N, …], targets [N] or [N, T].
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
        """Targets: int64 labels [N], or float32 values [N] or [N, T]."""

    def __len__(self) -> int:
        """Number of examples N."""

"""The linear classifier that every linear head ends as.

Shapes: N rows, d features, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mntrain.errors import DataError

_ROWS = 4096


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearClassifier:
    """Scores x Wᵀ + b of features x.

    Args:
        weight: float32 [C, d].
        bias: float32 [C].

    Raises:
        DataError: shapes or dtypes that do not fit each other, or a value that is not finite.
    """

    weight: NDArray[np.float32]
    bias: NDArray[np.float32]

    def __post_init__(self) -> None:
        if self.weight.ndim != 2 or self.bias.shape != self.weight.shape[:1] or self.weight.size == 0:
            raise DataError(
                f"A classifier has weights of shape {list(self.weight.shape)} and biases of shape "
                f"{list(self.bias.shape)}; they must be [classes, features] and [classes]."
            )
        if self.weight.dtype != np.float32 or self.bias.dtype != np.float32:
            raise DataError(
                f"A classifier has weights of {self.weight.dtype} and biases of {self.bias.dtype}; both must be "
                "float32."
            )
        if not (np.isfinite(self.weight).all() and np.isfinite(self.bias).all()):
            raise DataError("A classifier holds weights or biases that are not finite; it cannot be used.")

    @property
    def classes(self) -> int:
        """C."""
        return len(self.weight)

    @property
    def features(self) -> int:
        """d."""
        return int(self.weight.shape[1])

    def logits(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Features [N, d] → logits float32 [N, C]; rows are read a few thousand at a time."""
        parts: list[NDArray[Any]] = [
            features[start : start + _ROWS] @ self.weight.T + self.bias for start in range(0, len(features), _ROWS)
        ]
        return np.concatenate(parts) if parts else np.zeros((0, self.classes), np.float32)

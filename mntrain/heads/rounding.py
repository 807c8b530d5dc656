"""Rounding of a linear head in float32, against its own logits in float64.

Shapes: N rows, d features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mntrain.heads.classifier import LinearClassifier

_ROWS = 4096
_SHARE = 1e-3
"""Share of rows that may change: classes that are as likely as each other have no answer to keep."""


@dataclass(frozen=True, kw_only=True)
class Rounding:
    """What float32 makes of the logits of a classifier.

    Args:
        rows: number of rows.
        changed: rows whose answer is another one than in float64.
        largest: largest difference of a logit, in nats.
    """

    rows: int
    changed: int
    largest: float

    @classmethod
    def of(cls, classifier: LinearClassifier, features: NDArray[np.float32]) -> Rounding:
        """Compare both on features [N, d], a few thousand rows at a time."""
        weight, bias = classifier.weight.astype(np.float64), classifier.bias.astype(np.float64)
        changed, largest = 0, 0.0
        for start in range(0, len(features), _ROWS):
            rows = features[start : start + _ROWS]
            short, exact = classifier.logits(rows), rows.astype(np.float64) @ weight.T + bias
            changed += int((short.argmax(axis=1) != exact.argmax(axis=1)).sum())
            largest = max(largest, float(np.abs(short - exact).max()))
        return cls(rows=len(features), changed=changed, largest=largest)

    def note(self) -> str | None:
        """Tell how many answers hang on rounding, and the remedy; None for a share of them that means nothing."""
        if self.changed <= _SHARE * self.rows:
            return None
        return (
            f"{self.changed:,} of {self.rows:,} validation rows have another answer in float64: features lie so far "
            f"from 0 that float32 rounds logits by up to {self.largest:.2g}, and other engines round otherwise. "
            "Subtract the mean of each feature before the store is written"
        )

"""Scores during training: those of composed classifiers are composed of base scores.

Since x·Σₖ αₖVₖ + Σₖ αₖpₖ = Σₖ αₖ(x·Vₖ + pₖ), base logits are all that training needs of a row, and they never change.

Shapes: N rows, n rows of a batch, d features, C classes, F few classes, K neighbors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from mntrain.data.examples import IndexArray
from mntrain.feature_store.store import FeatureSplit
from mntrain.heads.classifier import LinearClassifier

_ROWS = 4096
MOST_CACHED = 2**30
"""Bytes of base logits that are kept; logits of more are computed for each batch from its features."""


class BaseLogits:
    """Logits of the base classifier, computed once for all rows, or for each batch where that takes too much memory.

    Args:
        split: training rows.
        classifier: base classifier.
        dtype: of the logits, float32 or float64.
    """

    def __init__(self, split: FeatureSplit, classifier: LinearClassifier, dtype: Any = np.float32) -> None:
        self._features, self.labels = split.features, torch.from_numpy(np.array(split.labels))
        self._weight, self.bias = classifier.weight.astype(dtype), classifier.bias.astype(dtype)
        shape = (len(split), classifier.classes)
        self._cached: Tensor | None = None
        if shape[0] * shape[1] * np.dtype(dtype).itemsize <= MOST_CACHED:
            values = np.empty(shape, dtype)
            for start in range(0, len(values), _ROWS):
                values[start : start + _ROWS] = self._compute(slice(start, start + _ROWS))
            self._cached = torch.from_numpy(values)

    @property
    def dtype(self) -> torch.dtype:
        """Of the logits."""
        return torch.from_numpy(self.bias).dtype

    def of_rows(self, rows: IndexArray) -> Tensor:
        """Rows int64 [n] → logits [n, C]."""
        if self._cached is not None:
            return self._cached[torch.from_numpy(rows)]
        return torch.from_numpy(self._compute(rows))

    def _compute(self, rows: Any) -> Any:
        return np.asarray(self._features[rows], self.bias.dtype) @ self._weight.T + self.bias


class ComposedScores:
    """Scores of all classes while coefficients are learned (equations 1 to 4).

    Args:
        logits: base logits.
        members: classes of each composition, its own first, int64 [F, K + 1].
        compose_bias: compose biases too; else each few class keeps its own.
    """

    def __init__(self, logits: BaseLogits, members: IndexArray, *, compose_bias: bool) -> None:
        self._logits = logits
        self._few, self._members = torch.from_numpy(members[:, 0].copy()), torch.from_numpy(members)
        bias = torch.from_numpy(logits.bias)
        self._removed = None if compose_bias else bias[self._members]
        self._added = None if compose_bias else bias[self._few]

    def __call__(self, rows: IndexArray, coefficients: Tensor) -> Tensor:
        """Rows int64 [n] and coefficients [F, K + 1] → scores [n, C]."""
        base = self._logits.of_rows(rows)
        shape = (len(rows), *self._members.shape)
        parts = base.index_select(1, self._members.flatten()).view(shape)  # [n, F, K + 1]
        if self._removed is not None:
            parts = parts - self._removed
        few = (parts * coefficients).sum(dim=-1)
        return base.index_copy(1, self._few, few if self._added is None else few + self._added)

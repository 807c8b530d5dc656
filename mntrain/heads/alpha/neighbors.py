"""Nearest classes of few classes, by the means of their features.

Shapes: N rows, d features, C classes, F few classes, K neighbors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mntrain.data.examples import IndexArray
from mntrain.errors import ConfigError, DataError

_ROWS = 4096


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassNeighbors:
    """Nearest classes of every few class, nearest first.

    Args:
        few: the few classes, int64 [F].
        classes: their neighbors, int64 [F, K].
        distances: Euclidean distances between mean features, float64 [F, K].
    """

    few: IndexArray
    classes: IndexArray
    distances: NDArray[np.float64]

    @property
    def members(self) -> IndexArray:
        """Classes of each composition, its own first, int64 [F, K + 1]."""
        return np.concatenate([self.few[:, None], self.classes], axis=1)


def class_means(features: NDArray[np.float32], labels: IndexArray, classes: int) -> NDArray[np.float64]:
    """Average the features of each class, a few thousand rows at a time.

    Args:
        features: float32 [N, d], may be memory-mapped.
        labels: int64 [N], below ``classes``.
        classes: C.

    Returns:
        Means float64 [C, d]; nan for a class without rows.

    Raises:
        DataError: a feature is not finite.
    """
    sums = np.zeros((classes, features.shape[1]))
    for start in range(0, len(features), _ROWS):
        rows, own = features[start : start + _ROWS], labels[start : start + _ROWS]
        wrong = ~np.isfinite(rows).all(axis=1)
        if wrong.any():
            raise DataError(
                f"Row {start + int(wrong.argmax())} has a feature that is not finite; write the features again without "
                "such rows."
            )
        present, place = np.unique(own, return_inverse=True)
        # A product with a matrix of ones and zeros adds up rows of a class faster than np.add.at.
        sums[present] += (place[None, :] == np.arange(len(present))[:, None]).astype(np.float32) @ rows
    counts = np.bincount(labels, minlength=classes)[:, None]
    with np.errstate(invalid="ignore"):
        means: NDArray[np.float64] = sums / counts
    return means


def nearest_classes(
    means: NDArray[np.float64], few: IndexArray, candidates: IndexArray, neighbors: int
) -> ClassNeighbors:
    """Find the nearest candidates of each few class by Euclidean distance of means (section 4.2).

    Args:
        means: mean features float64 [C, d].
        few: classes to find neighbors of, int64 [F].
        candidates: classes to choose among, int64; a class is never its own neighbor.
        neighbors: K.

    Raises:
        ConfigError: there are fewer than K candidates for a class.
    """
    most = len(candidates) - int(np.isin(few, candidates).any())
    if neighbors > most:
        raise ConfigError(
            f"alpha.neighbors is {neighbors}, but there are {most} classes to choose neighbors among; lower "
            "alpha.neighbors, or set alpha.source to base or all."
        )
    distances = np.stack([np.linalg.norm(means[candidates] - means[own], axis=1) for own in few])
    distances[few[:, None] == candidates[None, :]] = np.inf
    order = np.argsort(distances, axis=1, kind="stable")[:, :neighbors]
    return ClassNeighbors(few=few, classes=candidates[order], distances=np.take_along_axis(distances, order, axis=1))

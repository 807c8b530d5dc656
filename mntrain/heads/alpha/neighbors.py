"""Nearest classes of few classes, by the means of their features.

Shapes: d features, C classes, F few classes, K neighbors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mntrain.data.examples import IndexArray
from mntrain.errors import ConfigError
from mntrain.heads.alpha.config import Source
from mntrain.heads.groups import ClassGroups, nearest_means


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
    check_neighbors(neighbors, len(candidates) - int(np.isin(few, candidates).any()))
    classes, distances = nearest_means(means, few, candidates, neighbors)
    return ClassNeighbors(few=few, classes=classes, distances=distances)


def most_neighbors(groups: ClassGroups, source: Source) -> int:
    """Count the classes that ``source`` leaves to choose the neighbors of a few class among."""
    return len(groups.members(source)) - (source == "all")


def check_neighbors(neighbors: int, most: int) -> None:
    """Check that there are K classes to choose among.

    Raises:
        ConfigError: there are ``most``, which are fewer.
    """
    if neighbors > most:
        raise ConfigError(
            f"alpha.neighbors is {neighbors}, but there are {most} classes to choose neighbors among; lower "
            "alpha.neighbors, or set alpha.source to base or all."
        )

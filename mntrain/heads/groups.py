"""Classes of a store by their number of training examples, and the nearest of the larger ones.

Shapes: C classes, d features, F classes of few examples, K neighbors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from mntrain.data.classes.groups import CLASS_GROUPS, class_groups
from mntrain.data.examples import IndexArray
from mntrain.errors import ConfigError
from mntrain.feature_store.store import FeatureSplit

GROUPS = ("few", "medium", "many", "all")
"""Groups in the order of results."""
_ROWS = 4096


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassGroups:
    """Groups of C classes; base classes are those of many and medium.

    Args:
        counts: training examples of each class, int64 [C].
        many: a class of more is one of many.
        few: a class of fewer is one of few.

    Raises:
        ConfigError: the thresholds cross.
    """

    counts: IndexArray
    many: int = 100
    few: int = 20

    def __post_init__(self) -> None:
        class_groups(self.counts, self.many, self.few)

    def names(self) -> tuple[str, ...]:
        """Name the group of each class."""
        return class_groups(self.counts, self.many, self.few)

    def members(self, group: str) -> IndexArray:
        """Return the classes of few, medium, many, base or all, int64."""
        names = np.array(self.names())
        if group == "all":
            return np.arange(len(names))
        chosen = names != "few" if group == "base" else names == group
        return np.flatnonzero(chosen)

    def sizes(self) -> dict[str, int]:
        """Count the classes of each group."""
        return {group: len(self.members(group)) for group in (*reversed(CLASS_GROUPS), "all")}

    def require_few(self, method: str, neighbors: int = 1) -> None:
        """Check that there are classes of few examples, and enough base classes.

        Args:
            method: that needs them, for messages.
            neighbors: base classes that a class of few is composed with.

        Raises:
            ConfigError: there are not.
        """
        counted = f"the classes have {self.counts.min()} to {self.counts.max()} training examples"
        if not len(self.members("few")):
            raise ConfigError(
                f"Method {method!r} changes the classifiers of classes with fewer than {self.few} training examples, "
                f"but there is none: {counted}. Raise --head.few, or choose another method."
            )
        base = len(self.members("base"))
        section = "alpha" if method.startswith("alpha") else "head"
        if base < neighbors:
            raise ConfigError(
                f"Method {method!r} takes {neighbors} base class(es), of {self.few} training examples or more, but "
                f"there {'is' if base == 1 else 'are'} {base}: {counted}. Lower --{section}.neighbors or --head.few."
            )


def class_means(split: FeatureSplit, classes: int) -> NDArray[np.float64]:
    """Compute the mean features of each class, float64 [C, d]; NaN for a class without examples."""
    sums, counts = np.zeros((classes, split.features.shape[1])), np.bincount(split.labels, minlength=classes)
    for start in range(0, len(split), _ROWS):
        rows, labels = split.features[start : start + _ROWS], split.labels[start : start + _ROWS]
        sums += sum_by_class(rows.astype(np.float64), labels, classes)
    with np.errstate(invalid="ignore"):
        means: NDArray[np.float64] = sums / counts[:, None]
    return means


def sum_by_class(rows: NDArray[np.float64], labels: IndexArray, classes: int) -> NDArray[np.float64]:
    """Add up the rows [N, d] of each class, float64 [C, d]."""
    members = csr_array((np.ones(len(labels)), (labels, np.arange(len(labels)))), shape=(classes, len(labels)))
    sums: NDArray[np.float64] = members @ rows
    return sums


def nearest_means(
    means: NDArray[np.float64], classes: IndexArray, candidates: IndexArray, count: int
) -> tuple[IndexArray, NDArray[np.float64]]:
    """Find the candidates whose means lie nearest, by Euclidean distance (Alpha Net, section 4.2).

    Args:
        means: mean features of each class, [C, d].
        classes: whose neighbors are asked for, int64 [F]; no class is its own neighbor.
        candidates: classes to choose among, int64.
        count: K.

    Returns:
        Classes int64 [F, K], the nearest first, and distances float64 [F, K]; infinite where there is no other class.
    """
    distances = cdist(means[classes], means[candidates])
    distances[classes[:, None] == candidates] = np.inf
    order = np.argsort(distances, axis=1, kind="stable")[:, :count]
    return candidates[order], np.take_along_axis(distances, order, axis=1)

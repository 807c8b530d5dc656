"""Training rows of a long-tailed set, with the group of every class.

Shapes: N rows, d features, C classes, F few classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mntrain.data.examples import IndexArray


@dataclass(frozen=True, kw_only=True, eq=False)
class AlphaData:
    """Training rows of a long-tailed set.

    Args:
        features: float32 [N, d], may be memory-mapped.
        labels: int64 [N].
        groups: many, medium or few for each of C classes.
        label_names: of C classes.
    """

    features: NDArray[np.float32]
    labels: IndexArray
    groups: tuple[str, ...]
    label_names: tuple[str, ...]

    def classes(self, *groups: str) -> IndexArray:
        """Return the classes of some groups, ascending, int64."""
        return np.flatnonzero(np.isin(np.array(self.groups), groups)).astype(np.int64)

    @property
    def few(self) -> IndexArray:
        """Classes to compose, int64 [F]."""
        return self.classes("few")

    @property
    def base(self) -> IndexArray:
        """Classes that stay as they are, int64 [C − F]."""
        return self.classes("many", "medium")

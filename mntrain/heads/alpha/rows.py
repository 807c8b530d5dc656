"""Training rows of a long-tailed set, with the groups of classes.

Shapes: N rows, d features, C classes, F few classes.
"""

from __future__ import annotations

from dataclasses import dataclass

from mntrain.data.examples import IndexArray
from mntrain.feature_store.store import FeatureSplit
from mntrain.heads.groups import ClassGroups


@dataclass(frozen=True, kw_only=True, eq=False)
class AlphaData:
    """Training rows of a long-tailed set.

    Args:
        split: features [N, d], may be memory-mapped, and labels [N].
        groups: classes of few, medium and many examples.
        label_names: of C classes.
    """

    split: FeatureSplit
    groups: ClassGroups
    label_names: tuple[str, ...]

    @property
    def few(self) -> IndexArray:
        """Classes to compose, int64 [F]."""
        return self.groups.members("few")

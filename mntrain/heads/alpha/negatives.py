"""Rows of each epoch: all of few classes, and random ones of base classes.

Shapes: N rows, E rows of an epoch.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mntrain.data.examples import IndexArray


class EpochRows:
    """Draws the rows of each epoch, in random order.

    Negatives are drawn without replacement. The paper takes as many as there are few-class rows; without any (appendix
    E) few classes gain more and all others lose more.

    Args:
        few: rows of few classes, int64.
        base: rows of base classes, int64.
        negatives: base rows for each few row; all of them, where there are fewer.
        redraw: draw base rows anew for every epoch.
        generator: source of draws.
    """

    def __init__(
        self, few: IndexArray, base: IndexArray, negatives: float, *, redraw: bool, generator: np.random.Generator
    ) -> None:
        self._few, self._base = few, base
        self._count = min(len(base), round(negatives * len(few)))
        self._redraw, self._generator = redraw, generator
        self._kept = self._draw()

    def __iter__(self) -> Iterator[IndexArray]:
        """Yield rows int64 [E] of one epoch after another, without end."""
        while True:
            yield self._generator.permutation(np.concatenate([self._few, self._kept]))
            if self._redraw:
                self._kept = self._draw()

    def _draw(self) -> IndexArray:
        return self._generator.choice(self._base, self._count, replace=False)

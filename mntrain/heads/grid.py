"""Grids of a setting that validation rows choose from, widened while the best value lies at an end."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

Rank = tuple[float, float]
"""The better the larger."""
WORST: Rank = (-math.inf, -math.inf)
"""Rank of a value that gives no head."""


@dataclass(frozen=True, kw_only=True)
class GridChoice:
    """Best value of a grid.

    Args:
        value: the best; of equally good ones the least.
        values: all that were tried, rising.
        notes: that the best is the least or the largest that may be tried; empty where it lies inside.
    """

    value: float
    values: tuple[float, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Values of a setting.

    A grid that ends too early favours the methods whose own grids do not, so none ends while it gets better.

    Args:
        name: of the setting, for notes.
        values: that are tried at first, rising.
        least, most: limits of what is tried at all.
        factor: between a value beyond an end and that end.
    """

    name: str
    values: tuple[float, ...]
    least: float
    most: float
    factor: float

    def choose(self, rank: Callable[[float], Rank]) -> GridChoice:
        """Rank all values, and more of them while the best lies at an end."""
        ranks = {value: _rank(rank, value) for value in self.values}
        while True:
            tried = tuple(sorted(ranks))
            best = max(tried, key=ranks.__getitem__)
            beyond = self._beyond(best, tried)
            if beyond is None:
                return GridChoice(value=best, values=tried, notes=self._notes(best))
            ranks[beyond] = _rank(rank, beyond)

    def _beyond(self, best: float, tried: tuple[float, ...]) -> float | None:
        if best == tried[-1] and best < self.most:
            return min(self.most, _short(best * self.factor))
        if best == tried[0] and best > self.least:
            return max(self.least, _short(best / self.factor))
        return None

    def _notes(self, best: float) -> tuple[str, ...]:
        if best not in (self.least, self.most):
            return ()
        end = "least" if best == self.least else "largest"
        return (f"{self.name} {best:g} is the best on the validation rows, and the {end} that is tried",)


def _rank(rank: Callable[[float], Rank], value: float) -> Rank:
    """Rank a value; scores that are not finite are the worst."""
    found = rank(value)
    return found if all(map(math.isfinite, found)) else WORST


def _short(value: float) -> float:
    """Round to three digits, so that a value reads as it is."""
    return float(f"{value:.3g}")

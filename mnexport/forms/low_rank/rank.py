"""Rank of an approximation: the smallest number of directions that keeps a tolerance, or a given one."""

from collections.abc import Callable
from dataclasses import dataclass

from mnexport.errors import FormError

# Share of the tolerance that is used up on known examples; the rest is left for new ones: the largest error of a whole
# test set is a multiple of the largest error of an artifact's images (benchmarks/rank_margin.py).
SHARE = 0.25
_MEBIBYTE = 2**20


@dataclass(frozen=True, kw_only=True)
class RankBounds:
    """Bounds of the number of directions of a model.

    Args:
        full: directions with which nothing is left out.
        held: directions that the largest table may hold.
        table_bytes: size that this table may have.
        entries: S of the dictionary; a rank that is given is no higher.
        unit: directions are taken in steps of this many: as there are classes, where each gets one.
    """

    full: int
    held: int
    table_bytes: int
    entries: int
    unit: int = 1

    @property
    def max_chosen(self) -> int:
        """Highest rank that may be chosen: a multiple of ``unit``, below 1 where the tables hold no direction."""
        return self._whole(min(self.full, self.held))

    @property
    def max_given(self) -> int:
        """Highest rank that may be asked for."""
        return self._whole(min(self.full, self.held, self.entries))

    def _whole(self, directions: int) -> int:
        return directions // self.unit * self.unit

    def limit(self) -> str:
        """Describe what limits the rank that may be asked for."""
        if self.max_given == self._whole(self.full):
            return f"no more than the {self.full} that leave nothing out"
        if self.max_given == self._whole(self.entries):
            return f"no more than the {self.entries} entries of its dictionary"
        return f"no more than a table of {self.table_bytes / _MEBIBYTE:.3g} MiB holds"


@dataclass(frozen=True, kw_only=True)
class RankRule:
    """Rule that decides on a rank.

    Args:
        tolerance: largest error, of a probability or of a value in standard deviations of the target.
        given: rank that was asked for, or None for the smallest.
        share: of the tolerance that a rank which is chosen may use up on known examples.
    """

    tolerance: float
    given: int | None = None
    share: float = SHARE

    @property
    def limit(self) -> float:
        """Largest error on known examples: all that is allowed, of a rank that was asked for."""
        return self.share * self.tolerance if self.given is None else self.tolerance

    def choose(self, error: Callable[[int], float], bounds: RankBounds) -> int | None:
        """Choose a rank within the tolerance, a multiple of the unit of the bounds; None where there is none.

        Args:
            error: rank → largest error.
            bounds: of the model's rank.

        Raises:
            FormError: the rank that was asked for is out of bounds.
        """
        unit = bounds.unit
        if self.given is None:
            units = smallest_rank(lambda count: error(count * unit), bounds.max_chosen // unit, self.limit)
            return None if units is None else units * unit
        self._check(self.given, bounds)
        return self.given if error(self.given) <= self.limit else None

    def _check(self, given: int, bounds: RankBounds) -> None:
        unit = bounds.unit
        if bounds.max_given < 1:
            least = "one direction" if unit == 1 else f"{unit} directions, one for each class"
            raise FormError(
                f"--rank is {given}; this model takes at least {least}, but {bounds.limit()}. Leave out --rank"
                + ("." if bounds.max_chosen else ", and take an exact form (--form auto does).")
            )
        if not unit <= given <= bounds.max_given or given % unit:
            steps = "" if unit == 1 else f" in steps of {unit}, one for each class"
            raise FormError(
                f"--rank is {given}; this model takes {unit} to {bounds.max_given} directions{steps} "
                f"({bounds.limit()}). Without --rank it gets the fewest that keep the tolerance."
            )


def smallest_rank(error: Callable[[int], float], largest: int, tolerance: float) -> int | None:
    """Find the smallest rank whose error is within the tolerance, by halving; None where even the largest fails.

    Errors fall with the rank but for noise, so that no smaller rank is looked for below one that failed.

    Args:
        error: rank → largest error.
        largest: highest rank that may be taken.
        tolerance: that the error must not exceed.
    """
    if largest < 1 or not error(largest) <= tolerance:
        return None
    low, high = 0, largest
    while high - low > 1:
        middle = (low + high) // 2
        if error(middle) <= tolerance:
            high = middle
        else:
            low = middle
    return high

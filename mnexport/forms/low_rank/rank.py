"""How many directions an approximation takes: the smallest number that keeps within a tolerance, or the one given."""

from collections.abc import Callable
from dataclasses import dataclass

from mnexport.errors import FormError

# Share of the tolerance that is used up on known examples; the rest is left for those that nobody has seen.
MARGIN = 0.5


@dataclass(frozen=True, kw_only=True)
class RankRule:
    """What decides on a rank.

    Args:
        tolerance: largest error, of a probability or of a value in standard deviations of the target.
        given: rank that was asked for, or None for the smallest.
    """

    tolerance: float
    given: int | None = None

    def choose(self, error: Callable[[int], float], largest: int, unit: int = 1) -> int | None:
        """A rank within the tolerance, or None where there is none.

        Args:
            error: rank → largest error.
            largest: highest rank that may be taken.
            unit: directions that one more rank adds: as many as there are classes where each gets one.

        Raises:
            FormError: the rank that was asked for cannot be.
        """
        if self.given is None:
            return smallest_rank(error, largest, MARGIN * self.tolerance)
        if largest < 1:
            return None
        if not 1 <= self.given <= largest * unit or self.given % unit:
            steps = "" if unit == 1 else f", in steps of {unit}: one for each class"
            raise FormError(
                f"--rank is {self.given}; this model takes 1 to {largest * unit} directions{steps} (no more than it "
                "has entries, and than its tables may hold). Without --rank it gets the fewest that keep the tolerance."
            )
        rank = self.given // unit
        return rank if error(rank) <= self.tolerance else None


def smallest_rank(error: Callable[[int], float], largest: int, tolerance: float) -> int | None:
    """The smallest rank whose error is within the tolerance, found by halving; None where even the largest fails.

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

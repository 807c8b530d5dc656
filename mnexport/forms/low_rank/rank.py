"""How many directions an approximation takes: the smallest number that keeps within a tolerance, or the one given."""

from collections.abc import Callable
from dataclasses import dataclass

from mnexport.errors import FormError

# Share of the tolerance that is used up on known examples; the rest is left for those that nobody has seen: the worst
# of a whole test set is off by a multiple of the worst of an artifact's images (benchmarks/rank_margin.py).
SHARE = 0.25
_MEBIBYTE = 2**20


@dataclass(frozen=True, kw_only=True)
class Room:
    """How many directions a model has room for.

    Args:
        full: directions with which nothing is left out.
        held: directions that the largest table may hold.
        table_bytes: what that table may have.
        entries: S of the dictionary; a rank that is given is no higher.
        unit: directions are taken in steps of this many: as there are classes, where each gets one.
    """

    full: int
    held: int
    table_bytes: int
    entries: int
    unit: int = 1

    @property
    def chosen(self) -> int:
        """Most directions that may be chosen: a multiple of ``unit``, below 1 where there is no room for any."""
        return self._whole(min(self.full, self.held))

    @property
    def given(self) -> int:
        """Most directions that may be asked for."""
        return self._whole(min(self.full, self.held, self.entries))

    def _whole(self, directions: int) -> int:
        return directions // self.unit * self.unit

    def limit(self) -> str:
        """What keeps a given rank from being higher, in words."""
        if self.given == self._whole(self.full):
            return f"no more than the {self.full} that leave nothing out"
        if self.given == self._whole(self.entries):
            return f"no more than the {self.entries} entries of its dictionary"
        return f"no more than a table of {self.table_bytes / _MEBIBYTE:.3g} MiB holds"


@dataclass(frozen=True, kw_only=True)
class RankRule:
    """What decides on a rank.

    Args:
        tolerance: largest error, of a probability or of a value in standard deviations of the target.
        given: rank that was asked for, or None for the smallest.
        share: of the tolerance that a rank which is chosen may use up on known examples.
    """

    tolerance: float
    given: int | None = None
    share: float = SHARE

    def choose(self, error: Callable[[int], float], room: Room) -> int | None:
        """A rank within the tolerance, a multiple of the room's unit; None where there is none.

        Args:
            error: rank → largest error.
            room: what the model has room for.

        Raises:
            FormError: the rank that was asked for cannot be.
        """
        unit = room.unit
        if self.given is None:
            found = smallest_rank(lambda rank: error(rank * unit), room.chosen // unit, self.share * self.tolerance)
            return None if found is None else found * unit
        self._check(self.given, room)
        return self.given if error(self.given) <= self.tolerance else None

    def _check(self, given: int, room: Room) -> None:
        unit = room.unit
        if room.given < 1:
            least = "one direction" if unit == 1 else f"{unit} directions, one for each class"
            raise FormError(
                f"--rank is {given}; this model takes at least {least}, but {room.limit()}. Leave out --rank"
                + ("." if room.chosen else ", and take an exact form (--form auto does).")
            )
        if not unit <= given <= room.given or given % unit:
            steps = "" if unit == 1 else f" in steps of {unit}, one for each class"
            raise FormError(
                f"--rank is {given}; this model takes {unit} to {room.given} directions{steps} ({room.limit()}). "
                "Without --rank it gets the fewest that keep the tolerance."
            )


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

"""How long everything may take, and what was left out."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Skip:
    """Something that was not done.

    Args:
        what: was left out.
        why: in words.
    """

    what: str
    why: str


@dataclass(kw_only=True)
class Budget:
    """Time that runs out; work that would not fit is left out and written down.

    Args:
        seconds: for everything.
        clock: seconds that only grow.
    """

    seconds: float
    clock: Callable[[], float] = time.monotonic
    skips: list[Skip] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._end = self.clock() + self.seconds

    @property
    def left(self) -> float:
        """Seconds until the end; negative behind it."""
        return self._end - self.clock()

    def skip(self, what: str, why: str) -> None:
        """Writes down that something is left out."""
        self.skips.append(Skip(what=what, why=why))

    def allows(self, what: str, seconds: float) -> bool:
        """Whether work of so many seconds fits; if not, it is written down."""
        if seconds <= self.left:
            return True
        spare = f"{max(self.left, 0):.0f} s of {self.seconds / 60:g} minutes are left, {seconds:.0f} s are needed"
        self.skip(what, f"no time: {spare}; raise --minutes")
        return False

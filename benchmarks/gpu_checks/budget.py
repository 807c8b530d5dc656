"""Time budget of the checks, and the work that was left out."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Skip:
    """Work that was left out.

    Args:
        what: description of the work.
        why: reason.
    """

    what: str
    why: str


@dataclass(kw_only=True)
class Budget:
    """Time budget; work that would not fit is left out and recorded.

    Args:
        seconds: time for everything.
        clock: monotonic clock in seconds.
        skips: work that was left out.
    """

    seconds: float
    clock: Callable[[], float] = time.monotonic
    skips: list[Skip] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._end = self.clock() + self.seconds

    @property
    def left(self) -> float:
        """Seconds until the end; negative after it."""
        return self._end - self.clock()

    def skip(self, what: str, why: str) -> None:
        """Record work that is left out."""
        self.skips.append(Skip(what=what, why=why))

    def allows(self, what: str, seconds: float) -> bool:
        """Tell if work of ``seconds`` fits; if not, it is recorded as left out."""
        if seconds <= self.left:
            return True
        spare = f"{max(self.left, 0):.0f} s of {self.seconds / 60:g} minutes are left, {seconds:.0f} s are needed"
        self.skip(what, f"no time: {spare}; raise --minutes")
        return False

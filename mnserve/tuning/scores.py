"""What measurements say about a candidate, as pure functions of measured latencies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from mnserve.bench.statistics import Slot


@dataclass(frozen=True, kw_only=True)
class Goal:
    """What a candidate has to keep."""

    latency_ms: float
    """Bound on the latency in milliseconds, as a client sees it."""
    percentile: float
    """Percentile of the latencies that has to keep it, 0 to 100."""
    rows: int
    """Rows of every request."""

    @property
    def name(self) -> str:
        """Short name of the percentile, such as p99."""
        return f"p{float(self.percentile)!r}".removesuffix(".0")

    @property
    def least_calls(self) -> int:
        """Calls of which one lies beyond the percentile; of fewer it is the slowest, whatever it would be of more."""
        beyond = 1 - self.percentile / 100
        return 1 if beyond <= 0 else math.ceil(round(1 / beyond, 6))


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One measurement of a candidate on a server of its own."""

    slots: Mapping[int, Slot] = field(default_factory=dict)
    """Callers at a time -> their calls."""
    fault: str = ""
    """Why it could not be measured; empty where it was."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """What so many callers got, each number the median of those of all trials."""

    callers: int
    calls: int
    """Calls of all trials together."""
    least_calls: int
    """Calls of the trial that has the fewest."""
    p50_ms: float
    tail_ms: float
    """The percentile that the bound is on, in milliseconds."""
    rows_per_second: float


@dataclass(frozen=True, kw_only=True)
class Score:
    """A candidate over all of its trials."""

    loads: tuple[Load, ...]
    """One for each number of callers; none where a trial failed."""
    fault: str = ""
    """Why it cannot be chosen, whatever was measured; empty where it can."""

    @property
    def tail_ms(self) -> float:
        """The worst of the loads, in milliseconds: the bound holds for every number of callers."""
        return max((load.tail_ms for load in self.loads), default=float("inf"))

    @property
    def rows_per_second(self) -> float:
        """Geometric mean over the loads, so that each counts alike, however large its numbers are."""
        if not self.loads:
            return 0.0
        return float(np.exp(np.mean(np.log([load.rows_per_second for load in self.loads]))))

    @property
    def least_calls(self) -> int:
        """Calls of the trial and the load that have the fewest; 0 where a trial failed."""
        return min((load.least_calls for load in self.loads), default=0)

    def tells(self, goal: Goal) -> bool:
        """Whether there were calls enough for the percentile to be something else than the slowest of them."""
        return self.least_calls >= goal.least_calls

    def keeps(self, goal: Goal) -> bool:
        """Whether the bound holds."""
        return not self.fault and self.tail_ms <= goal.latency_ms

    def rank(self, goal: Goal) -> float:
        """Less is better: below 0 by throughput where the bound is kept, else by latency, infinite for failures."""
        return -self.rows_per_second if self.keeps(goal) else self.tail_ms


def score(trials: Sequence[Trial], goal: Goal) -> Score:
    """The score of at least one trial: the median of what each says, so that one busy minute does not decide.

    Raises:
        ValueError: there is no trial.
    """
    if not trials:
        raise ValueError("no trials to score; at least one is needed")
    for trial in trials:
        if trial.fault:
            return Score(loads=(), fault=trial.fault)
    return Score(
        loads=tuple(_load(callers, [trial.slots[callers] for trial in trials], goal) for callers in trials[0].slots)
    )


def _load(callers: int, slots: Sequence[Slot], goal: Goal) -> Load:
    # Values that were measured, not between two: the bound is on calls.
    at = round(goal.percentile / 100, 12)  # 99.9 / 100 is a little more than 0.999
    quantiles = [np.quantile(slot.latencies_ms, (0.5, at), method="inverted_cdf") for slot in slots]
    p50, tail = np.median(quantiles, axis=0)
    return Load(
        callers=callers,
        calls=sum(len(slot.latencies_ms) for slot in slots),
        least_calls=min(len(slot.latencies_ms) for slot in slots),
        p50_ms=float(p50),
        tail_ms=float(tail),
        rows_per_second=float(np.median([goal.rows * len(slot.latencies_ms) / slot.wall_s for slot in slots])),
    )

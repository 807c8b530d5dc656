"""Scores of candidates, as pure functions of measured latencies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from mnserve.bench.statistics import Slot


@dataclass(frozen=True, kw_only=True)
class Goal:
    """Bound on the latency that a candidate has to keep."""

    latency_ms: float
    """Bound on the latency in milliseconds, as a client sees it."""
    percentile: float
    """Percentile of the latencies under the bound, 0 to 100."""
    rows: int
    """Rows of every request."""

    @property
    def name(self) -> str:
        """Short name of the percentile, such as p99."""
        return f"p{float(self.percentile)!r}".removesuffix(".0")

    @property
    def least_calls(self) -> int:
        """Calls of which one lies beyond the percentile; with fewer calls the percentile is the slowest call."""
        beyond = 1 - self.percentile / 100
        return 1 if beyond <= 0 else math.ceil(round(1 / beyond, 6))


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Measurement of a candidate on a server of its own."""

    slots: Mapping[int, Slot] = field(default_factory=dict)
    """Number of callers -> their calls."""
    fault: str = ""
    """Reason why the measurement failed; empty if it did not."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """Result for one number of callers, each figure the median of all trials."""

    callers: int
    """Concurrent callers."""
    calls: int
    """Calls of all trials together."""
    least_calls: int
    """Calls of the trial with the fewest."""
    p50_ms: float
    """Median latency in milliseconds."""
    tail_ms: float
    """Percentile under the bound, in milliseconds."""
    rows_per_second: float
    """Throughput in rows a second."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """Score of a candidate over all of its trials."""

    loads: tuple[Load, ...]
    """Result for each number of callers; empty if a trial failed."""
    fault: str = ""
    """Reason why the candidate cannot be chosen; empty if it can."""

    @property
    def tail_ms(self) -> float:
        """Highest percentile of the loads in milliseconds, since the bound holds for every number of callers."""
        return max((load.tail_ms for load in self.loads), default=float("inf"))

    @property
    def rows_per_second(self) -> float:
        """Geometric mean of the throughputs, so that loads of any size have the same weight."""
        if not self.loads:
            return 0.0
        return float(np.exp(np.mean(np.log([load.rows_per_second for load in self.loads]))))

    @property
    def least_calls(self) -> int:
        """Calls of the trial and load with the fewest; 0 if a trial failed."""
        return min((load.least_calls for load in self.loads), default=0)

    def has_enough_calls(self, goal: Goal) -> bool:
        """Returns True if there were enough calls for a percentile below the slowest call."""
        return self.least_calls >= goal.least_calls

    def keeps_bound(self, goal: Goal) -> bool:
        """Returns True if the bound holds."""
        return not self.fault and self.tail_ms <= goal.latency_ms

    def rank(self, goal: Goal) -> float:
        """Returns a sort key: negative throughput if the bound is kept, else the latency, infinite after a fault."""
        return -self.rows_per_second if self.keeps_bound(goal) else self.tail_ms


def score(trials: Sequence[Trial], goal: Goal) -> Score:
    """Computes the score of one or more trials: medians, so that one busy minute does not decide.

    Raises:
        ValueError: There is no trial.
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
    # Measured values without interpolation: the bound is on calls.
    quantile = round(goal.percentile / 100, 12)  # 99.9 / 100 is a little more than 0.999
    quantiles = [np.quantile(slot.latencies_ms, (0.5, quantile), method="inverted_cdf") for slot in slots]
    p50, tail = np.median(quantiles, axis=0)
    return Load(
        callers=callers,
        calls=sum(len(slot.latencies_ms) for slot in slots),
        least_calls=min(len(slot.latencies_ms) for slot in slots),
        p50_ms=float(p50),
        tail_ms=float(tail),
        rows_per_second=float(np.median([goal.rows * len(slot.latencies_ms) / slot.wall_s for slot in slots])),
    )

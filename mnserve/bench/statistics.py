"""Statistics of a benchmark, as pure functions of measured latencies.

A *slot* is a run of calls of one model without a break; a *round* is one slot of each compared model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Slot:
    """Measured calls of one model, made one after the other (or by several callers at once)."""

    latencies_ms: tuple[float, ...]
    """Duration of every call in milliseconds."""
    wall_s: float
    """Seconds from the first call's start to the last call's end."""

    def __post_init__(self) -> None:
        if not self.latencies_ms:
            raise ValueError("a slot holds no calls; it needs at least one")


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Median, quartiles and extremes of a sample; quantiles are interpolated linearly."""

    median: float
    q1: float
    q3: float
    low: float
    high: float

    @property
    def iqr(self) -> float:
        """Interquartile range, q3 - q1."""
        return self.q3 - self.q1


@dataclass(frozen=True, kw_only=True)
class Latency:
    """Latency and throughput of one model over all of its slots."""

    calls: int
    """Timed calls."""
    p50_ms: float
    """Median duration of a call in milliseconds."""
    p99_ms: float
    """99th percentile in milliseconds; with fewer than about 100 calls it is close to the slowest call."""
    mean_ms: float
    """Mean duration of a call in milliseconds."""
    images_per_second: float
    """Rows answered per second of measured time."""


def spread(values: Sequence[float]) -> Spread:
    """Computes the spread of at least one value.

    Raises:
        ValueError: There is no value.
    """
    if not values:
        raise ValueError("no values to take the spread of; at least one is needed")
    low, q1, median, q3, high = np.quantile(np.asarray(values, np.float64), (0.0, 0.25, 0.5, 0.75, 1.0))
    return Spread(median=float(median), q1=float(q1), q3=float(q3), low=float(low), high=float(high))


def latency(slots: Sequence[Slot], rows: int) -> Latency:
    """Computes the latency over all calls of all ``slots``, with ``rows`` rows in each call.

    Raises:
        ValueError: There is no slot.
    """
    if not slots:
        raise ValueError("no slots to summarise; at least one is needed")
    calls = np.asarray([value for slot in slots for value in slot.latencies_ms], np.float64)
    p50, p99 = np.quantile(calls, (0.5, 0.99))
    wall = sum(slot.wall_s for slot in slots)
    return Latency(
        calls=len(calls),
        p50_ms=float(p50),
        p99_ms=float(p99),
        mean_ms=float(calls.mean()),
        images_per_second=rows * len(calls) / wall,
    )


def ratios(first: Sequence[Slot], second: Sequence[Slot]) -> tuple[float, ...]:
    """Divides, for each round, the median latency of ``first`` by that of ``second``.

    A disturbance of the machine that lasts longer than a round hits both slots of the round and cancels in the ratio.
    Therefore ratios are taken round by round and not from the two overall medians.

    Raises:
        ValueError: The two have different numbers of rounds.
    """
    return tuple(
        float(np.median(a.latencies_ms) / np.median(b.latencies_ms)) for a, b in zip(first, second, strict=True)
    )

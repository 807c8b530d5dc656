"""Interleaved timing: rounds with a few calls of each model, in alternating order."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain

import numpy as np

from mnserve.bench.statistics import Slot

Call = Callable[[], object]
"""Request or engine run with its input ready; the result is dropped."""

Clock = Callable[[], int]
"""A monotonic clock in nanoseconds."""

_WARM_UP_CALLS = 3
_WARM_UP_SECONDS = 0.2


@dataclass(frozen=True, kw_only=True)
class TimingPlan:
    """Amount of timing.

    Raises:
        ValueError: A field is not positive.
    """

    seconds: float = 2.0
    """Measured time of each model, in seconds, split evenly over the rounds."""
    rounds: int = 20
    """Rounds. Every round has one slot of each model, of one call or more."""
    concurrency: int = 1
    """Callers at the same time, each waiting for its answer before its next call."""
    least_calls: int = 1
    """Calls that a slot should have, of all callers together; slots of slow models are extended for them."""
    stretch: float = 1.0
    """Limit of this extension, as a multiple of ``seconds``."""

    def __post_init__(self) -> None:
        for name in ("seconds", "rounds", "concurrency", "least_calls", "stretch"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be above 0")


def interleave(
    calls: Sequence[Call],
    plan: TimingPlan,
    *,
    on_round: Callable[[int], None] = lambda _: None,
    clock: Clock = time.perf_counter_ns,
) -> list[list[Slot]]:
    """Times each of ``calls`` in every round; the order is reversed from one round to the next.

    A warm-up of all calls comes first and fixes the number of calls in a slot. So a slow moment during the measurement
    changes latencies and not sample sizes. Garbage collection is paused during a slot.

    Args:
        calls: One callable for each model.
        plan: Amount of timing.
        on_round: Called after every round with the number of rounds done.
        clock: Monotonic clock in nanoseconds.

    Returns:
        For each call, its slots in the order of the rounds.
    """
    slots: list[list[Slot]] = [[] for _ in calls]
    with ThreadPoolExecutor(plan.concurrency, thread_name_prefix="bench") as pool:

        def run(call: Call, count: int) -> Slot:
            return _slot(call, count, plan.concurrency, pool, clock)

        counts = [_calls_per_slot(call, run, plan) for call in calls]
        for done in range(plan.rounds):
            order = range(len(calls)) if done % 2 == 0 else reversed(range(len(calls)))
            for index in order:
                slots[index].append(run(calls[index], counts[index]))
            on_round(done + 1)
    return slots


def _calls_per_slot(call: Call, run: Callable[[Call, int], Slot], plan: TimingPlan) -> int:
    """Warms up a call, and returns the number of calls of each caller in a slot."""
    latencies: list[float] = []
    spent = 0.0
    while spent < _WARM_UP_SECONDS or len(latencies) < _WARM_UP_CALLS:
        slot = run(call, 1)
        latencies.extend(slot.latencies_ms)
        spent += slot.wall_s
    warm = latencies[len(latencies) // 2 :]  # the first calls are cold
    slot_ms = plan.seconds * 1e3 / plan.rounds
    calls_in_time = slot_ms / max(float(np.median(warm)), 1e-6)
    planned_calls = math.ceil(plan.least_calls / plan.concurrency)
    return max(1, round(max(calls_in_time, min(planned_calls, calls_in_time * plan.stretch))))


def _slot(call: Call, count: int, concurrency: int, pool: ThreadPoolExecutor, clock: Clock) -> Slot:
    """Times ``count`` calls by each of ``concurrency`` callers."""
    with _collector_paused():
        if concurrency == 1:
            # In the calling thread, so that no hand-over between threads is timed.
            timed = [_timed(call, count, clock)]
        else:
            timed = list(pool.map(lambda _: _timed(call, count, clock), range(concurrency)))
    moments = list(chain.from_iterable(timed))
    start, end = min(begin for begin, _ in moments), max(finish for _, finish in moments)
    return Slot(
        latencies_ms=tuple((finish - begin) / 1e6 for begin, finish in moments),
        wall_s=max(end - start, 1) / 1e9,
    )


def _timed(call: Call, count: int, clock: Clock) -> list[tuple[int, int]]:
    moments = []
    for _ in range(count):
        begin = clock()
        call()
        moments.append((begin, max(clock(), begin + 1)))
    return moments


@contextmanager
def _collector_paused() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()

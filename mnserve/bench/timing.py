"""Interleaved timing: rounds of a few calls of each model, in alternating order."""

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
"""One request or one engine run with its input ready; what it returns is dropped."""

Clock = Callable[[], int]
"""A monotonic clock in nanoseconds."""

_WARM_UP_CALLS = 3
_WARM_UP_SECONDS = 0.2


@dataclass(frozen=True, kw_only=True)
class TimingPlan:
    """How much to time.

    Raises:
        ValueError: a field is not positive.
    """

    seconds: float = 2.0
    """Measured time of each model, in seconds, split evenly over the rounds."""
    rounds: int = 20
    """Rounds. Every round runs each model once, at least one call each."""
    concurrency: int = 1
    """Callers that call at the same time, each waiting for its answer before it calls again."""
    least_calls: int = 1
    """Calls that a slot should have, of all callers together; slots of slow models take longer for them."""
    stretch: float = 1.0
    """How many times as long as ``seconds`` they may take for that."""

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

    All are warmed up first. The number of calls per slot is fixed by the warm-up, so that a slow moment
    during the measurement changes latencies and not sample sizes. Garbage collection waits until a slot has
    ended.

    Args:
        calls: one callable per model.
        plan: how much to time.
        on_round: called after every round with the number of rounds done.
        clock: monotonic nanoseconds.

    Returns:
        Per call, its slots in the order of the rounds.
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
    """Warms up and returns how many calls each caller makes in a slot."""
    latencies: list[float] = []
    spent = 0.0
    while spent < _WARM_UP_SECONDS or len(latencies) < _WARM_UP_CALLS:
        slot = run(call, 1)
        latencies.extend(slot.latencies_ms)
        spent += slot.wall_s
    warm = latencies[len(latencies) // 2 :]  # the first calls are cold
    slot_ms = plan.seconds * 1e3 / plan.rounds
    in_time = slot_ms / max(float(np.median(warm)), 1e-6)
    wanted = math.ceil(plan.least_calls / plan.concurrency)
    return max(1, round(max(in_time, min(wanted, in_time * plan.stretch))))


def _slot(call: Call, count: int, concurrency: int, pool: ThreadPoolExecutor, clock: Clock) -> Slot:
    """``count`` calls by each of ``concurrency`` callers."""
    with _collector_paused():
        if concurrency == 1:
            # In the calling thread, as a caller of one engine would: no hand-over between threads is timed.
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

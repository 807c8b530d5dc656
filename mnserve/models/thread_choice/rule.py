"""Rule that turns measured times into threads and instances."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from mnserve.models.thread_choice.run_costs import RunCosts

CLEAR: Final = 0.15
"""Part of a run's time that has to be gained; a busy machine varies by less in the quickest of several runs."""
GAIN_SECONDS: Final = 1e-4
"""Least gain of a run. Taking one call in costs more than that, and an idle thread would take the CPU it needs."""
CALL_SECONDS: Final = 2e-4
"""CPU time of a call outside of the engine, roughly. It decides how many CPUs engines can keep busy at all."""


@dataclass(frozen=True, kw_only=True)
class Timings:
    """Measured times.

    Attributes:
        cpus: CPUs that the process may use.
        single: Runs with one thread.
        share: Seconds of a run with one thread of the rows that one of ``cpus`` engines would get of ``single.rows``.
        wide: Runs with a thread for each CPU, of as many rows as ``single``.
    """

    cpus: int
    single: RunCosts
    share: float
    wide: RunCosts


@dataclass(frozen=True, kw_only=True)
class ThreadChoice:
    """Threads and instances of a model.

    Attributes:
        single: Each instance has one thread; otherwise the one instance has a thread for each CPU.
        instances: Instances that run side by side.
        wide_rows: Least rows of a batch that comes alone and runs with a thread for each CPU, in one more engine; 0
            for no such engine.
        reason: Why, as a clause with the measured times.
    """

    single: bool
    instances: int = 1
    wide_rows: int = 0
    reason: str


def choose(found: Timings, extra: int) -> ThreadChoice:
    """Chooses threads and instances.

    Args:
        found: Measured times.
        extra: Engines beside the first that there is memory for.
    """
    single, wide, cpus = found.single, found.wide, found.cpus
    instances = max(1, round(cpus * single.row / (single.row + CALL_SECONDS)))
    times = f"1 row {single.one * 1e3:.3g} ms with 1 thread, {wide.one * 1e3:.3g} with {cpus}"
    if single.rows > 1:
        times += f"; {single.rows} rows {single.most * 1e3:.3g} and {wide.most * 1e3:.3g} ms"
    gains_one, gains_most = is_clear(single.one, wide.one), is_clear(single.most, wide.most)
    if not gains_one and not gains_most:
        instances = min(instances, 1 + extra)
        return ThreadChoice(single=True, instances=instances, reason=f"{cpus} threads gain too little ({times})")
    if is_clear(found.share, wide.row * shares(wide.rows, cpus) * cpus):  # as many rows as all engines side by side run
        return ThreadChoice(single=False, reason=f"{cpus} threads are quicker, also for many callers ({times})")
    if extra == 0:
        return ThreadChoice(
            single=False, reason=f"{cpus} threads are quicker, and it is too large to load twice ({times})"
        )
    return ThreadChoice(
        single=True,
        instances=min(instances, extra),
        wide_rows=1 if gains_one else single.rows,
        reason=f"{cpus} threads are quicker for a batch that comes alone ({times})",
    )


def is_clear(before: float, after: float) -> bool:
    """Returns True if the second time is clearly shorter than the first."""
    return before - after >= max(CLEAR * before, GAIN_SECONDS)


def shares(rows: int, cpus: int) -> int:
    """Returns the rows that each of ``cpus`` engines gets of a batch."""
    return math.ceil(rows / cpus)

"""Shares of the CPUs for several engine processes."""

from __future__ import annotations

import os


def cpu_shares(count: int) -> list[tuple[int, ...]]:
    """Divides the CPUs that this process may use among engine processes.

    Args:
        count: Number of engine processes.

    Returns:
        CPUs of each. One alone is not bound to any, and has an empty share; so have all where there are fewer CPUs.
    """
    cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if count == 1 or len(cpus) < count:
        return [()] * count
    return [tuple(cpus[number * len(cpus) // count : (number + 1) * len(cpus) // count]) for number in range(count)]

"""Number of front ends of a server that was not told one."""

from __future__ import annotations

import math
import os
from typing import Final

_CALLS: Final = 2500
"""Calls a second that one front end is good for beside the engines, on one core."""
_MOST: Final = 8
"""Most front ends that are chosen."""


def front_ends_work() -> bool:
    """True where this system has what processes of a server share."""
    return hasattr(os, "memfd_create")


def first_count(cpus: int, engine_processes: int = 1) -> int:
    """Chooses how many front ends are started before anything is known of the models; 0 is one process for all.

    Args:
        cpus: CPUs that the server may use.
        engine_processes: Engine processes that were asked for. Several need a front end, however few CPUs there are.
    """
    if engine_processes < 2 and (cpus < 2 or not front_ends_work()):
        return 0
    return max(1, min(_MOST, cpus // 2))


def count_for(cpus: int, rows_per_second: float) -> int:
    """Chooses how many front ends there are once models are loaded.

    Args:
        cpus: CPUs that the server may use.
        rows_per_second: What the fastest model can answer on its engines, in rows; 0 where it is not known.
    """
    if not rows_per_second:
        return first_count(cpus)
    return min(math.ceil(rows_per_second / _CALLS), max(min(2, cpus), min(_MOST, cpus // 2)))

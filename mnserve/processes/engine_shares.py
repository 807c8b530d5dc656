"""Shares of the machine for the engine processes of a server: a GPU each, or some of the CPUs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class EngineShare:
    """What one engine process may use.

    Attributes:
        cpus: CPUs that its threads are bound to; none leaves them as they are.
        device: Its GPU, as CUDA counts; None where the server has no more than one.
        devices: All GPUs of the server.
    """

    cpus: tuple[int, ...] = ()
    device: int | None = None
    devices: tuple[int, ...] = ()


def engine_shares(count: int, devices: Sequence[int] = ()) -> list[EngineShare]:
    """Divides the machine among engine processes.

    Args:
        count: Number of engine processes that was asked for.
        devices: GPUs of the server. Each of several has at least one process, which is bound to no CPUs.
    """
    if len(devices) > 1:
        numbers = range(max(count, len(devices)))
        return [EngineShare(device=devices[number % len(devices)], devices=tuple(devices)) for number in numbers]
    return [EngineShare(cpus=cpus) for cpus in _cpu_shares(count)]


def _cpu_shares(count: int) -> list[tuple[int, ...]]:
    """Divides the CPUs of this process. One alone is not bound to any; nor are any where there are fewer CPUs."""
    cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if count == 1 or len(cpus) < count:
        return [()] * count
    return [tuple(cpus[number * len(cpus) // count : (number + 1) * len(cpus) // count]) for number in range(count)]

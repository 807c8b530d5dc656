"""Which candidates may be chosen, and those that differ from one in a single respect."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from mnserve.engines.base import MAX_THREADS
from mnserve.engines.instance_groups import MAX_INSTANCES
from mnserve.errors import BenchError
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.repository.model_config import allowed_batch_sizes
from mnserve.tuning.candidate import Candidate

DELAYS_US: Final = (0, 500, 1_000, 2_000, 5_000)
AXES: Final = ("instances", "threads", "max_batch_size", "delay_us")
"""Respects in which candidates differ, in the order in which they are searched: engines first, since what is a good
batch depends on them."""


@dataclass(frozen=True, kw_only=True)
class SearchLimits:
    """What the load and the user leave open."""

    callers: int
    """Most callers at a time."""
    rows: int
    """Rows of every request."""
    latency_ms: float
    """Bound on the latency."""
    cpus: int
    """CPUs that threads times instances may take."""
    max_batch_size: int
    """Largest batch size to try; 0 takes what the callers can fill."""
    allow_smaller_batches: bool
    """Whether requests that are accepted now may be refused afterwards."""


@dataclass(frozen=True, kw_only=True)
class Space:
    """Every candidate that may be chosen, axis by axis."""

    batches: tuple[int, ...]
    """Values of ``max_batch_size``; (0,) for a model without a batch dimension."""
    delays_us: tuple[int, ...]
    cpus: int

    def along(self, axis: str, candidate: Candidate) -> tuple[Candidate, ...]:
        """Candidates that differ from one along an axis, itself left out.

        More instances get the threads that the CPUs leave for each of them.
        """
        if axis == "instances":
            found = [
                replace(candidate, instances=count, threads=min(candidate.threads, self.cpus // count))
                for count in _powers_of_two(1, min(self.cpus, MAX_INSTANCES))
            ]
        elif axis == "threads":
            share = min(self.cpus // candidate.instances, MAX_THREADS)
            counts = sorted({*_powers_of_two(1, share), share} - {0})
            found = [replace(candidate, threads=count) for count in counts]
        elif axis == "max_batch_size":
            found = [replace(candidate, max_batch_size=size) for size in self.batches]
        else:
            found = [replace(candidate, delay_us=delay) for delay in self.delays_us]
        return tuple(one for one in found if one != candidate)


def search_space(config: ModelConfig, current: Candidate, limits: SearchLimits) -> Space:
    """The candidates for a model under a load.

    A closed loop never has more rows under way than callers times rows, so larger batches are not tried, nor are delays
    with a single caller, for whom nobody can come. Batch sizes below the current one would have the server refuse
    requests that it takes now, and need permission.

    Args:
        config: complete configuration of the model.
        current: what it asks for.
        limits: what the load and the user leave open.

    Raises:
        BenchError: no batch size is left.
    """
    batches = _batches(config, current, limits)
    delays = [delay for delay in DELAYS_US if delay < limits.latency_ms * 1e3]
    alone = limits.callers == 1 or not config.max_batch_size
    return Space(
        batches=batches,
        delays_us=tuple(sorted({*(delays if not alone else [0]), current.delay_us})),
        cpus=limits.cpus,
    )


def _batches(config: ModelConfig, current: Candidate, limits: SearchLimits) -> tuple[int, ...]:
    now = current.max_batch_size
    if not now:
        return (0,)
    least = limits.rows if limits.allow_smaller_batches else max(limits.rows, now)
    most = limits.max_batch_size or max(least, _next_power_of_two(limits.callers * limits.rows))
    if most < limits.rows:
        raise BenchError(f"--max-batch-size is {most}, less than the {limits.rows} rows of a request; raise it")
    if most < least:
        raise BenchError(
            f"--max-batch-size is {most}, and model '{config.name}' takes requests of up to {least} rows now; raise "
            "it, or add --allow-smaller-batches to have larger requests refused"
        )
    allowed = allowed_batch_sizes(config)
    sizes = [size for size in allowed if least <= size <= most] if allowed else _powers_of_two(least, most)
    return tuple(sorted({*sizes, now}))


def _powers_of_two(least: int, most: int) -> list[int]:
    found, size = [], _next_power_of_two(least)
    while size <= most:
        found.append(size)
        size *= 2
    return found


def _next_power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()

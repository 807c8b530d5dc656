"""Search space of a tuning: all candidates, and the neighbors of one candidate along an axis."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from mnserve.engines.base import MAX_THREADS
from mnserve.engines.instance_groups import MAX_INSTANCES
from mnserve.errors import BenchError
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.repository.model_parameters import allowed_batch_sizes
from mnserve.tuning.candidate import Candidate

_DELAYS_US: Final = (0, 500, 1_000, 2_000, 5_000)
AXES: Final = ("instances", "threads", "max_batch_size", "delay_us")
"""Axes of the search in their order: engines first, since the best batch size depends on them."""


@dataclass(frozen=True, kw_only=True)
class SearchLimits:
    """Limits of a search, from the load and the options."""

    callers: int
    """Most concurrent callers."""
    rows: int
    """Rows of every request."""
    latency_ms: float
    """Bound on the latency in milliseconds."""
    cpus: int
    """CPUs that threads times instances may take."""
    max_batch_size: int
    """Largest batch size to try; 0 takes what the callers can fill."""
    allow_smaller_batches: bool
    """Try batch sizes below the current one, which refuse requests that are accepted now."""


@dataclass(frozen=True, kw_only=True)
class Space:
    """Space of all candidates, axis by axis."""

    batches: tuple[int, ...]
    """Values of ``max_batch_size``; (0,) for a model without a batch dimension."""
    delays_us: tuple[int, ...]
    """Values of ``delay_us``."""
    cpus: int
    """CPUs that threads times instances may take."""

    def along(self, axis: str, candidate: Candidate) -> tuple[Candidate, ...]:
        """Lists the other candidates that differ from ``candidate`` along one axis.

        More instances get fewer threads each, so that the CPUs suffice.
        """
        if axis == "instances":
            candidates = [
                replace(candidate, instances=count, threads=min(candidate.threads, self.cpus // count))
                for count in _powers_of_two(1, min(self.cpus, MAX_INSTANCES))
            ]
        elif axis == "threads":
            share = min(self.cpus // candidate.instances, MAX_THREADS)
            counts = sorted({*_powers_of_two(1, share), share} - {0})
            candidates = [replace(candidate, threads=count) for count in counts]
        elif axis == "max_batch_size":
            candidates = [replace(candidate, max_batch_size=size) for size in self.batches]
        else:
            candidates = [replace(candidate, delay_us=delay) for delay in self.delays_us]
        return tuple(other for other in candidates if other != candidate)


def search_space(config: ModelConfig, current: Candidate, limits: SearchLimits) -> Space:
    """Returns the candidates for a model under a load.

    Callers that wait for answers never have more rows in progress than callers times rows, so larger batches are not
    tried. A single caller gets no delay, since no other request can join its batch. Batch sizes below the current one
    would make the server refuse requests that it accepts now, so they need permission.

    Args:
        config: Complete configuration of the model.
        current: Candidate of this configuration.
        limits: Limits of the search.

    Raises:
        BenchError: No batch size is left.
    """
    batches = _batches(config, current, limits)
    delays = [delay for delay in _DELAYS_US if delay < limits.latency_ms * 1e3]
    single_requests = limits.callers == 1 or not config.max_batch_size
    return Space(
        batches=batches,
        delays_us=tuple(sorted({*([0] if single_requests else delays), current.delay_us})),
        cpus=limits.cpus,
    )


def _batches(config: ModelConfig, current: Candidate, limits: SearchLimits) -> tuple[int, ...]:
    current_size = current.max_batch_size
    if not current_size:
        return (0,)
    minimum = limits.rows if limits.allow_smaller_batches else max(limits.rows, current_size)
    maximum = limits.max_batch_size or max(minimum, _next_power_of_two(limits.callers * limits.rows))
    if maximum < limits.rows:
        raise BenchError(f"--max-batch-size is {maximum}, less than the {limits.rows} rows of a request; raise it")
    if maximum < minimum:
        raise BenchError(
            f"--max-batch-size is {maximum}, and model '{config.name}' takes requests of up to {minimum} rows now; "
            "raise it, or add --allow-smaller-batches to have larger requests refused"
        )
    allowed = allowed_batch_sizes(config)
    sizes = [size for size in allowed if minimum <= size <= maximum] if allowed else _powers_of_two(minimum, maximum)
    return tuple(sorted({*sizes, current_size}))


def _powers_of_two(minimum: int, maximum: int) -> list[int]:
    powers, size = [], _next_power_of_two(minimum)
    while size <= maximum:
        powers.append(size)
        size *= 2
    return powers


def _next_power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()

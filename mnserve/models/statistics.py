"""Counters of one served model: the single source of ModelStatistics and of the Prometheus metrics.

Written on the event loop; read from any thread. All durations are nanoseconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from mnserve.execution.results import BatchResult, BatchTimes
from mnserve.protocol import service_pb2 as pb

FAILURE_REASONS: Final = ("REJECTED", "CANCELED", "BACKEND", "OTHER")
"""Reasons of failures under Triton's names: turned away or too late; the caller left; the engine; the request."""


@dataclass
class Duration:
    """Number and total duration of events of one kind."""

    count: int = 0
    ns: int = 0

    def add(self, ns: int) -> None:
        """Counts one more event."""
        self.count += 1
        self.ns += ns

    def message(self) -> pb.StatisticDuration:
        """Makes the protocol message."""
        return pb.StatisticDuration(count=self.count, ns=self.ns)


@dataclass
class _BatchCounters:
    """Durations of batches with the same number of rows."""

    input: Duration = field(default_factory=Duration)
    infer: Duration = field(default_factory=Duration)
    output: Duration = field(default_factory=Duration)


class ModelCounters:
    """Counters of the requests of one model version.

    Args:
        name: Name of the model.
        version: Its version.
        pending: Counts the requests that wait now.
    """

    def __init__(self, name: str, version: int, pending: Callable[[], int]) -> None:
        self.name = name
        self.version = version
        self.pending = pending
        """Counts the requests that wait now."""
        self.rows = 0
        """Rows answered successfully."""
        self.runs = 0
        """Successful batches."""
        self.success = Duration()
        self.failure = {reason: Duration() for reason in FAILURE_REASONS}
        self.queue = Duration()
        self.input = Duration()
        self.infer = Duration()
        self.output = Duration()
        self.cache_hit = Duration()
        self.cache_miss = Duration()
        self._last_inference_ms = 0
        self._batches: dict[int, _BatchCounters] = {}

    def record_batch(self, result: BatchResult) -> None:
        """Counts one successful batch."""
        self.runs += 1
        batch = self._batches.setdefault(result.rows, _BatchCounters())
        batch.input.add(result.times.input_ns)
        batch.infer.add(result.times.infer_ns)
        batch.output.add(result.times.output_ns)

    def record_success(self, *, rows: int, total_ns: int, queue_ns: int, times: BatchTimes) -> None:
        """Counts one answered request. A batch's durations count in full for each of its requests."""
        self.rows += rows
        self.success.add(total_ns)
        self.queue.add(queue_ns)
        self.input.add(times.input_ns)
        self.infer.add(times.infer_ns)
        self.output.add(times.output_ns)
        self._last_inference_ms = time.time_ns() // 1_000_000  # wall clock: the protocol wants a date

    def record_cache_hit(self, *, total_ns: int, lookup_ns: int) -> None:
        """Counts one request answered from the cache; its rows were computed before."""
        self.success.add(total_ns)
        self.cache_hit.add(lookup_ns)

    def record_cache_miss(self, lookup_ns: int) -> None:
        """Counts one request whose answer was not in the cache."""
        self.cache_miss.add(lookup_ns)

    def record_failure(self, *, reason: str, total_ns: int) -> None:
        """Counts one request without an answer.

        Args:
            reason: One of FAILURE_REASONS.
            total_ns: Time since its arrival.
        """
        self.failure[reason].add(total_ns)

    def message(self) -> pb.ModelStatistics:
        """Makes the protocol message."""
        failed = Duration(
            count=sum(duration.count for duration in self.failure.values()),
            ns=sum(duration.ns for duration in self.failure.values()),
        )
        return pb.ModelStatistics(
            name=self.name,
            version=str(self.version),
            last_inference=self._last_inference_ms,
            inference_count=self.rows,
            execution_count=self.runs,
            inference_stats=pb.InferStatistics(
                success=self.success.message(),
                fail=failed.message(),
                queue=self.queue.message(),
                compute_input=self.input.message(),
                compute_infer=self.infer.message(),
                compute_output=self.output.message(),
                cache_hit=self.cache_hit.message(),
                cache_miss=self.cache_miss.message(),
            ),
            batch_stats=[
                pb.InferBatchStatistics(
                    batch_size=size,
                    compute_input=batch.input.message(),
                    compute_infer=batch.infer.message(),
                    compute_output=batch.output.message(),
                )
                for size, batch in sorted(self._batches.items())
            ],
        )

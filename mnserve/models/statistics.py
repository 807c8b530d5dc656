"""Counters of one served model: the single source of ModelStatistics and of the Prometheus metrics.

Written on the event loop; read from any thread. All durations are nanoseconds.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, MutableSequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from mnserve.execution.latency_buckets import BUCKETS, bucket_of
from mnserve.execution.results import BatchResult, BatchTimes
from mnserve.protocol import service_pb2 as pb

FAILURE_REASONS: Final = ("REJECTED", "CANCELED", "BACKEND", "OTHER")
"""Reasons of failures under Triton's names: turned away or too late; the caller left; the engine; the request."""

_LATENCIES: Final = 24
"""First cell of the histogram of latencies."""
CELLS: Final = _LATENCIES + BUCKETS
"""Cells of the counters of one model version: 64-bit integers, in an array or in memory that processes share."""
(
    _ROWS,
    _COMPUTED,
    _SUCCESS_NS,
    _QUEUE_NS,
    _INPUT_NS,
    _INFER_NS,
    _OUTPUT_NS,
    LAST_MS,
    _HITS,
    _HIT_NS,
    _MISSES,
    _MISS_NS,
) = range(12)
_FAILURES: Final = {reason: 12 + 2 * index for index, reason in enumerate(FAILURE_REASONS)}
"""Reason -> cell of the number of failures; the next one has their duration."""

Cells: TypeAlias = "MutableSequence[int] | memoryview[int]"


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
class BatchCounters:
    """Durations of batches with the same number of rows."""

    input: Duration = field(default_factory=Duration)
    infer: Duration = field(default_factory=Duration)
    output: Duration = field(default_factory=Duration)


class ModelCounters:
    """Counters of one model version: of its requests in cells, and of its batches.

    Args:
        name: Name of the model.
        version: Its version.
        pending: Counts the requests that wait now.
        cells: CELLS cells for the counters of requests; None for an array.
    """

    def __init__(self, name: str, version: int, pending: Callable[[], int], cells: Cells | None = None) -> None:
        self.name = name
        self.version = version
        self.pending = pending
        """Counts the requests that wait now."""
        self._runs: Cells = array("q", (0,))
        self.batches: dict[int, BatchCounters] = {}
        """Rows of a batch -> durations of such batches."""
        self._cells: Cells = array("q", bytes(8 * CELLS)) if cells is None else cells

    @property
    def runs(self) -> int:
        """Successful batches."""
        return self._runs[0]

    @runs.setter
    def runs(self, count: int) -> None:
        self._runs[0] = count

    def count_runs_in(self, cell: Cells) -> None:
        """Counts successful batches in one cell from now on, such as memory that other processes read."""
        cell[0] = self.runs
        self._runs = cell

    def record_batch(self, result: BatchResult) -> None:
        """Counts one successful batch."""
        self._runs[0] += 1
        batch = self.batches.get(result.rows)
        if batch is None:
            batch = self.batches[result.rows] = BatchCounters()
        batch.input.add(result.times.input_ns)
        batch.infer.add(result.times.infer_ns)
        batch.output.add(result.times.output_ns)

    def record_success(self, *, rows: int, total_ns: int, queue_ns: int, times: BatchTimes) -> None:
        """Counts one answered request. A batch's durations count in full for each of its requests."""
        cells = self._cells
        cells[_ROWS] += rows
        cells[_COMPUTED] += 1
        cells[_SUCCESS_NS] += total_ns
        cells[_QUEUE_NS] += queue_ns
        cells[_INPUT_NS] += times.input_ns
        cells[_INFER_NS] += times.infer_ns
        cells[_OUTPUT_NS] += times.output_ns
        cells[_LATENCIES + bucket_of(total_ns)] += 1
        cells[LAST_MS] = time.time_ns() // 1_000_000  # wall clock: the protocol wants a date

    def record_cache_hit(self, *, total_ns: int, lookup_ns: int) -> None:
        """Counts one request answered from the cache; its rows were computed before."""
        cells = self._cells
        cells[_SUCCESS_NS] += total_ns
        cells[_HITS] += 1
        cells[_HIT_NS] += lookup_ns
        cells[_LATENCIES + bucket_of(total_ns)] += 1

    def record_cache_miss(self, lookup_ns: int) -> None:
        """Counts one request whose answer was not in the cache."""
        self._cells[_MISSES] += 1
        self._cells[_MISS_NS] += lookup_ns

    def record_failure(self, *, reason: str, total_ns: int) -> None:
        """Counts one request without an answer.

        Args:
            reason: One of FAILURE_REASONS.
            total_ns: Time since its arrival.
        """
        cell = _FAILURES[reason]
        self._cells[cell] += 1
        self._cells[cell + 1] += total_ns

    @property
    def rows(self) -> int:
        """Rows answered successfully."""
        return self._cells[_ROWS]

    @property
    def success(self) -> Duration:
        """Requests answered, computed or from the cache."""
        return Duration(self._cells[_COMPUTED] + self._cells[_HITS], self._cells[_SUCCESS_NS])

    @property
    def failure(self) -> dict[str, Duration]:
        """Reason -> requests without an answer."""
        return {reason: Duration(self._cells[cell], self._cells[cell + 1]) for reason, cell in _FAILURES.items()}

    @property
    def queue(self) -> Duration:
        """Waits of computed requests."""
        return Duration(self._cells[_COMPUTED], self._cells[_QUEUE_NS])

    @property
    def input(self) -> Duration:
        """Joining of rows, for each computed request."""
        return Duration(self._cells[_COMPUTED], self._cells[_INPUT_NS])

    @property
    def infer(self) -> Duration:
        """Runs of the engine, for each computed request."""
        return Duration(self._cells[_COMPUTED], self._cells[_INFER_NS])

    @property
    def output(self) -> Duration:
        """Splitting of rows, for each computed request."""
        return Duration(self._cells[_COMPUTED], self._cells[_OUTPUT_NS])

    @property
    def cache_hit(self) -> Duration:
        """Requests whose answer was kept."""
        return Duration(self._cells[_HITS], self._cells[_HIT_NS])

    @property
    def cache_miss(self) -> Duration:
        """Requests whose answer was looked for in vain."""
        return Duration(self._cells[_MISSES], self._cells[_MISS_NS])

    def snapshot(self) -> dict[str, Any]:
        """Describes all counters in plain values of JSON, with keys of text; durations are nanoseconds.

        ``latencies`` and ``batches`` are pairs: the bucket of ``latency_buckets``, or the rows of a batch, and how many
        requests or batches had them.
        """
        return {
            "name": self.name,
            "version": self.version,
            "answered": self.success.count,
            "failed": {reason: failed.count for reason, failed in self.failure.items()},
            "rows": self.rows,
            "runs": self.runs,
            "waiting": self.pending(),
            "total_ns": self.success.ns,
            "queue_ns": self.queue.ns,
            "infer_ns": self.infer.ns,
            "latencies": [[bucket, count] for bucket, count in enumerate(self._cells[_LATENCIES:CELLS]) if count],
            "batches": [[rows, batch.infer.count] for rows, batch in sorted(self.batches.items())],
        }

    def message(self) -> pb.ModelStatistics:
        """Makes the protocol message."""
        failures = self.failure.values()
        failed = Duration(sum(item.count for item in failures), sum(item.ns for item in failures))
        return pb.ModelStatistics(
            name=self.name,
            version=str(self.version),
            last_inference=self._cells[LAST_MS],
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
                for size, batch in sorted(self.batches.items())
            ],
        )

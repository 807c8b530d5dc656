"""Batch of requests: one run of an engine answers all of them.

Shapes: request i brings B_i rows; the batch has B = sum of B_i.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mnserve.codec.decoding import InferenceWork
from mnserve.engines.base import Engine
from mnserve.errors import EngineRunError
from mnserve.execution.batch_memory import Lease
from mnserve.execution.request import WaitingRequest
from mnserve.execution.results import BatchResult, BatchTimes, InferenceResult

Array = np.ndarray[Any, Any]


class Batch:
    """A batch on its way through an engine.

    Attributes:
        requests: Requests that it answers; none for a probe of the engine.
        works: Work of each of them, or the probe.
        rows: B.
        nbytes: Memory of the inputs.
        feeds: Inputs joined, name -> (B, ...); None until they are. A single request is taken as it is
            where its tensors are aligned.
        lease: Memory that the joined inputs were written to, which is given back; None where there is none.
        join_ns: Duration of joining.
        started_ns: Time at which an engine took the batch, on the monotonic clock; 0 before.
        paused_seconds: Seconds for which the process had stood still, in all, when the batch started.
        timed_out: The batch did not end in time: its requests were refused, and its outcome is dropped.
    """

    __slots__ = (
        "feeds",
        "join_ns",
        "lease",
        "nbytes",
        "paused_seconds",
        "requests",
        "rows",
        "started_ns",
        "timed_out",
        "works",
    )

    def __init__(self, requests: Sequence[WaitingRequest], works: Sequence[InferenceWork]) -> None:
        self.requests = requests
        self.works = works
        self.feeds: Mapping[str, Array] | None = None
        if len(works) == 1:
            self.feeds, self.rows, self.nbytes = _aligned(works[0].feeds), works[0].rows, works[0].nbytes
        else:
            self.rows = sum([work.rows for work in works])
            self.nbytes = sum([work.nbytes for work in works])
        self.lease: Lease | None = None
        self.join_ns = 0
        self.started_ns = 0
        self.paused_seconds = 0.0
        self.timed_out = False

    @property
    def has_waiters(self) -> bool:
        """True if a caller still waits for the batch, or it is a probe; may be asked in any thread."""
        return not self.requests or not all(request.reply.done() for request in self.requests)

    def answer(self, result: BatchResult) -> None:
        """Gives each caller that still waits its outputs."""
        if not self.requests:
            return
        started_ns, times = self.started_ns, result.times
        for request, arrays in zip(self.requests, result.outputs, strict=True):
            reply = request.reply
            if reply.done():
                request.leave_batch()
            else:
                request.in_batch = False
                if request.timers:
                    request.cancel_timers()
                reply.set_result(InferenceResult(arrays, started_ns - request.admitted_ns, times))

    def let_go(self) -> None:
        """Notes that no engine reads the requests any more that have ended early."""
        for request in self.requests:
            if request.in_batch and request.reply.done():
                request.leave_batch()

    def fail(self, error: BaseException) -> None:
        """Gives each caller that still waits an error of the run."""
        self.let_go()
        for request in self.requests:
            request.in_batch = False
            request.fail(error)


def execute(
    engine: Engine,
    works: Sequence[InferenceWork],
    feeds: Mapping[str, Array],
    *,
    batched: bool,
    join_ns: int = 0,
) -> BatchResult:
    """Runs the engine once for all callers. Their inputs differ in nothing but the number of rows.

    Args:
        engine: The engine.
        works: At least one caller's work; exactly one where ``batched`` is false.
        feeds: Their inputs joined: name -> (B, ...).
        batched: The model has a batch dimension.
        join_ns: Duration of joining them.

    Raises:
        EngineRunError: The engine failed, or answered with another number of rows than it was given.
    """
    rows = sum([work.rows for work in works])
    wanted = {name for work in works for name in work.outputs}
    names = [spec.name for spec in engine.outputs if spec.name in wanted]
    started = time.perf_counter_ns()
    arrays = dict(zip(names, engine.run(feeds, names), strict=True))
    ended = time.perf_counter_ns()
    if batched:
        _check_rows(arrays, rows)
    outputs = _split(works, arrays) if len(works) > 1 else [[arrays[name] for name in works[0].outputs]]
    times = BatchTimes(input_ns=join_ns, infer_ns=ended - started, output_ns=time.perf_counter_ns() - ended)
    return BatchResult(outputs=outputs, rows=rows, times=times)


def _aligned(feeds: Mapping[str, Array]) -> Mapping[str, Array]:
    """Copies tensors that start anywhere in a message; numbers have to start at multiples of their size."""
    if all(array.flags.aligned for array in feeds.values()):
        return feeds
    return {name: array if array.flags.aligned else array.copy() for name, array in feeds.items()}


def _split(works: Sequence[InferenceWork], arrays: Mapping[str, Array]) -> list[list[Array]]:
    """Cuts the outputs of a batch into those of each caller."""
    outputs = []
    start = 0
    for work in works:
        stop = start + work.rows
        outputs.append([arrays[name][start:stop] for name in work.outputs])
        start = stop
    return outputs


def _check_rows(arrays: Mapping[str, Array], rows: int) -> None:
    for name, array in arrays.items():
        if array.ndim == 0 or array.shape[0] != rows:
            raise EngineRunError(
                f"output '{name}' has shape {list(array.shape)} for a batch of {rows} rows; its first "
                "dimension is not the batch, so set max_batch_size to 0"
            )

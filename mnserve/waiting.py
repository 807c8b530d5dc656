"""The requests that wait for one engine: who is oldest, who may share a run with whom, and how many rows there are.

Only requests whose inputs have the same shapes (rows apart) share a run. A run always serves the oldest request and
those behind it in its bucket, in order, so nothing is overtaken for ever.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import time
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

from mnserve.execution import Array, BatchTimes, Work

__all__ = ["Answer", "WaitingLine", "WaitingRequest"]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a caller gets.

    Attributes:
        arrays: The outputs asked for, (B_i, ...).
        queue_ns: Time from admission to the start of the batch.
        times: Durations of the batch's stages.
    """

    arrays: list[Array]
    queue_ns: int
    times: BatchTimes


class WaitingRequest:
    """A request and the future on which its caller waits."""

    __slots__ = ("admitted_ns", "bucket", "future", "number", "work")

    def __init__(self, number: int, work: Work, bucket: Hashable, future: asyncio.Future[Answer]) -> None:
        self.number = number
        self.work = work
        self.bucket = bucket
        self.future = future
        self.admitted_ns = time.monotonic_ns()


class WaitingLine:
    """Requests in the order of their arrival, and the same by bucket.

    Operations take constant time, and logarithmic time for requests with a deadline.

    Args:
        max_batch_size: Most rows in one run; 0 where requests run one by one.
    """

    def __init__(self, max_batch_size: int) -> None:
        self._max_batch_size = max_batch_size
        self._requests: OrderedDict[int, WaitingRequest] = OrderedDict()
        self._buckets: dict[Hashable, OrderedDict[int, WaitingRequest]] = {}
        self._bucket_rows: dict[Hashable, int] = {}
        self._full: set[Hashable] = set()
        self._deadlines: list[tuple[float, int]] = []
        self._arrivals = 0
        self.rows = 0
        """Rows of all waiting requests."""
        self.nbytes = 0
        """Bytes of the tensors of all waiting requests."""

    def __len__(self) -> int:
        return len(self._requests)

    @property
    def any_full(self) -> bool:
        """Whether some bucket holds a whole batch."""
        return bool(self._full)

    @property
    def first_deadline(self) -> float:
        """The earliest deadline of those that wait, on the event loop's clock; infinity where there is none."""
        while self._deadlines and self._deadlines[0][1] not in self._requests:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else math.inf

    def add(self, work: Work, future: asyncio.Future[Answer], deadline: float | None = None) -> WaitingRequest:
        """Puts a request at the end."""
        request = WaitingRequest(self._arrivals, work, self._bucket_of(work), future)
        self._arrivals += 1
        self._requests[request.number] = request
        self._buckets.setdefault(request.bucket, OrderedDict())[request.number] = request
        self._set_rows(request.bucket, self._bucket_rows.get(request.bucket, 0) + work.rows)
        if deadline is not None:
            heapq.heappush(self._deadlines, (deadline, request.number))
        self.rows += work.rows
        self.nbytes += work.nbytes
        return request

    def remove(self, request: WaitingRequest) -> None:
        """Takes a request out; nothing happens if it is not there any more."""
        if self._requests.pop(request.number, None) is None:
            return
        bucket = self._buckets[request.bucket]
        del bucket[request.number]
        self._set_rows(request.bucket, self._bucket_rows[request.bucket] - request.work.rows)
        if not bucket:
            del self._buckets[request.bucket], self._bucket_rows[request.bucket]
        if not self._requests:
            self._deadlines.clear()
        self.rows -= request.work.rows
        self.nbytes -= request.work.nbytes

    def oldest(self) -> WaitingRequest:
        """The request that has waited longest; there must be one."""
        return next(iter(self._requests.values()))

    def take_batch(self) -> list[WaitingRequest]:
        """Takes the oldest request and those behind it in its bucket, as many as fit; not those already answered."""
        bucket = self._buckets[self.oldest().bucket]
        batch: list[WaitingRequest] = []
        rows = 0
        while bucket:
            request = next(iter(bucket.values()))
            if batch and rows + request.work.rows > self._max_batch_size:
                break
            self.remove(request)
            if not request.future.done():
                batch.append(request)
                rows += request.work.rows
        return batch

    def take_all(self) -> list[WaitingRequest]:
        """Takes everything."""
        requests = list(self._requests.values())
        for request in requests:
            self.remove(request)
        return requests

    def _set_rows(self, bucket: Hashable, rows: int) -> None:
        self._bucket_rows[bucket] = rows
        if rows >= max(1, self._max_batch_size):
            self._full.add(bucket)
        else:
            self._full.discard(bucket)

    def _bucket_of(self, work: Work) -> Hashable:
        if self._max_batch_size == 0:
            return None
        return tuple((name, array.shape[1:], array.dtype.str) for name, array in work.feeds.items())

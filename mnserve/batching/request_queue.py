"""The requests that wait for one model: whose turn it is, who may share a run with whom, and how many rows there are.

Only requests whose inputs have the same shapes (rows apart) share a run. A run always serves the request whose turn it
is and those behind it in its bucket, in order. Among equals that is the oldest, so nothing is overtaken for ever; a
higher priority overtakes a lower one for as long as there is any of it.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from mnserve.batching.priority_queue import Earliest, PriorityQueue, Rank
from mnserve.execution.batch import Array, BatchTimes, InferenceWork

__all__ = ["InferenceResult", "RequestQueue", "WaitingRequest"]


class InferenceResult(NamedTuple):
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

    __slots__ = ("admitted_ns", "bucket", "future", "number", "rank", "work")

    def __init__(
        self, number: int, work: InferenceWork, bucket: Hashable, rank: Rank, future: asyncio.Future[InferenceResult]
    ) -> None:
        self.number = number
        self.work = work
        self.bucket = bucket
        self.rank = rank
        self.future = future
        self.admitted_ns = time.monotonic_ns()


class RequestQueue:
    """Requests in the order of their arrival, in the order of their turns, and the latter by bucket.

    Operations take constant time where all requests are equal and have no time limit, and otherwise logarithmic time;
    only a batch of a preferred size takes a look at the levels that are there.

    Args:
        max_batch_size: Most rows in one run; 0 where requests run one by one.
        preferred_sizes: Rows at which a batch is left as it is.
    """

    def __init__(self, max_batch_size: int, preferred_sizes: Sequence[int] = ()) -> None:
        self._max_batch_size = max_batch_size
        self._preferred = frozenset(preferred_sizes)
        self._enough = min(self._preferred, default=max(1, max_batch_size))
        self._requests: OrderedDict[int, WaitingRequest] = OrderedDict()
        self._by_priority: PriorityQueue[WaitingRequest] = PriorityQueue()
        self._buckets: dict[Hashable, PriorityQueue[WaitingRequest]] = {}
        self._bucket_rows: dict[Hashable, int] = {}
        self._full_buckets: set[Hashable] = set()
        self._deadlines = Earliest(self._requests)
        self._delay_deadlines = Earliest(self._requests)
        self._arrivals = 0
        self.rows = 0
        """Rows of all waiting requests."""
        self.nbytes = 0
        """Bytes of the tensors of all waiting requests."""

    def __len__(self) -> int:
        return len(self._requests)

    def __contains__(self, request: WaitingRequest) -> bool:
        return request.number in self._requests

    @property
    def has_full_batch(self) -> bool:
        """Whether some bucket holds a whole batch, or as many rows as the smallest preferred one."""
        return bool(self._full_buckets)

    @property
    def next_is_whole(self) -> bool:
        """Whether the request whose turn it is, and those behind it in its bucket, have the rows of a whole batch."""
        return bool(self._by_priority) and self._bucket_rows[self._by_priority.first().bucket] >= max(
            1, self._max_batch_size
        )

    @property
    def first_deadline(self) -> float:
        """The earliest deadline of those that wait, on the event loop's clock; infinity where there is none."""
        return self._deadlines.first()

    @property
    def delay_until(self) -> float:
        """When the first of those that wait stops waiting for company, on the same clock; infinity where none does."""
        return self._delay_deadlines.first()

    def count(self, level: int) -> int:
        """Requests of a priority level that wait."""
        return self._by_priority.count((level, False)) + self._by_priority.count((level, True))

    def add(
        self,
        work: InferenceWork,
        future: asyncio.Future[InferenceResult],
        *,
        level: int = 0,
        deadline: float | None = None,
        delay_until: float | None = None,
    ) -> WaitingRequest:
        """Puts a request behind those of its priority level.

        Args:
            work: The request.
            future: Where its caller waits.
            level: Its priority level.
            deadline: When its caller's time is up, on the event loop's clock.
            company_until: When it stops waiting for company, on the same clock.
        """
        request = WaitingRequest(self._arrivals, work, self._bucket_of(work), (level, False), future)
        self._arrivals += 1
        self._requests[request.number] = request
        self._queue(request)
        self._set_rows(request.bucket, self._bucket_rows.get(request.bucket, 0) + work.rows)
        if deadline is not None:
            self._deadlines.add(deadline, request.number)
        if delay_until is not None:
            self._delay_deadlines.add(delay_until, request.number)
        self.rows += work.rows
        self.nbytes += work.nbytes
        return request

    def remove(self, request: WaitingRequest) -> None:
        """Takes a request out; nothing happens if it is not there any more."""
        if self._requests.pop(request.number, None) is None:
            return
        self._unqueue(request)
        self._set_rows(request.bucket, self._bucket_rows[request.bucket] - request.work.rows)
        if not self._buckets[request.bucket]:
            del self._buckets[request.bucket], self._bucket_rows[request.bucket]
        self.rows -= request.work.rows
        self.nbytes -= request.work.nbytes

    def postpone(self, request: WaitingRequest) -> None:
        """Puts a request that waits behind all others of its level, and those that will come."""
        self._unqueue(request)
        request.rank = (request.rank[0], True)
        self._queue(request)

    def oldest(self) -> WaitingRequest:
        """The request that has waited longest; there must be one."""
        return next(iter(self._requests.values()))

    def take_batch(self, *, as_many_as_fit: bool = False) -> list[WaitingRequest]:
        """Takes the request whose turn it is and those behind it in its bucket; not those already answered.

        Args:
            as_many_as_fit: Take them whatever sizes are preferred; otherwise the largest preferred size that they make
                up in their order, and as many as fit where they make up none.
        """
        while self._by_priority:
            head = self._by_priority.first()
            if not head.future.done():
                break
            self.remove(head)  # it must not choose the bucket
        else:
            return []
        line = self._buckets[head.bucket]
        limit = self._max_batch_size
        if self._preferred and not as_many_as_fit:
            limit = self._largest_preferred(line) or limit
        batch: list[WaitingRequest] = []
        rows = 0
        while line:
            request = line.first()
            if batch and rows + request.work.rows > limit:
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

    def _largest_preferred(self, line: PriorityQueue[WaitingRequest]) -> int:
        """The largest preferred size that the first requests of a bucket make up; 0 where they make up none."""
        rows, found = 0, 0
        for request in line:
            rows += 0 if request.future.done() else request.work.rows
            if rows > self._max_batch_size:
                break
            if rows in self._preferred:
                found = rows
        return found

    def _queue(self, request: WaitingRequest) -> None:
        self._by_priority.append(request.rank, request.number, request)
        bucket = self._buckets.get(request.bucket)
        if bucket is None:
            bucket = self._buckets[request.bucket] = PriorityQueue()
        bucket.append(request.rank, request.number, request)

    def _unqueue(self, request: WaitingRequest) -> None:
        self._by_priority.remove(request.rank, request.number)
        self._buckets[request.bucket].remove(request.rank, request.number)

    def _set_rows(self, bucket: Hashable, rows: int) -> None:
        self._bucket_rows[bucket] = rows
        if rows >= self._enough:
            self._full_buckets.add(bucket)
        else:
            self._full_buckets.discard(bucket)

    def _bucket_of(self, work: InferenceWork) -> Hashable:
        if self._max_batch_size == 0:
            return None
        return tuple((name, array.shape[1:], array.dtype.str) for name, array in work.feeds.items())

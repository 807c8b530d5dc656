"""Queue of the requests that wait for one model: their order, who may share a batch, and how many may wait.

Only requests whose inputs have the same shapes (rows apart) share a batch. A batch always serves the first request in
the order and those behind it in its bucket. Among equals the first is the oldest, so none is overtaken for ever. A
higher priority overtakes a lower one for as long as there is any of it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

from mnserve.batching.options import BatcherOptions
from mnserve.batching.priority_queue import Earliest, PriorityQueue
from mnserve.codec.decoding import InferenceWork
from mnserve.errors import QueueFullError
from mnserve.execution.batch import Batch
from mnserve.execution.clock import Clock
from mnserve.execution.request import Rank, Reply, WaitingRequest

_KEPT_BUCKETS: Final = 16
"""Empty buckets that are worth keeping."""
_NO_RANK: Final[Rank] = (0, False)
"""Rank of requests without a level."""


class Bucket(PriorityQueue[WaitingRequest]):
    """Requests that may share a batch.

    Attributes:
        key: What their inputs have in common; None for one that is alone.
        rows: Rows of all of them.
    """

    __slots__ = ("key", "rows")

    def __init__(self, key: Hashable) -> None:
        super().__init__()
        self.key = key
        self.rows = 0


class RequestQueue:
    """Requests in the order in which they run, all of them and those of each bucket.

    Operations take constant time where all requests are equal and have no time limit, and otherwise logarithmic time.
    Only a batch of a preferred size takes a look at the levels that are there.

    Args:
        options: Limits of the batcher.
        name: Name of the model, for messages.
        clock: Monotonic time.
    """

    def __init__(self, options: BatcherOptions, *, name: str, clock: Clock | None = None) -> None:
        self.name = name
        self.clock = Clock() if clock is None else clock
        self._ns = self.clock.ns
        self._options = options
        self._max_batch_size = options.max_batch_size
        self._preferred = frozenset(options.preferred_sizes)
        self._full_rows = min(self._preferred, default=max(1, options.max_batch_size))
        self._max_requests = {level: policy.max_requests for level, policy in options.queue.policies.items()}
        self._limits_requests = bool(options.queue.max_requests)
        self._requests: dict[int, WaitingRequest] = {}
        self._all: PriorityQueue[WaitingRequest] = PriorityQueue()
        self._buckets: dict[Hashable, Bucket] = {}
        self._full_buckets = 0
        self._deadlines = Earliest(self._requests)
        self._delay_deadlines = Earliest(self._requests)
        self.arrivals = 0
        """Number of requests that ever were in the queue."""
        self.last_admitted_ns = 0
        """Time of the last admission, on the monotonic clock."""
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
        """True if a bucket holds a full batch, or as many rows as the smallest preferred one."""
        return self._full_buckets > 0

    @property
    def next_is_full(self) -> bool:
        """True if the first request and those behind it in its bucket have the rows of a full batch."""
        first = self._all.first()
        return first is not None and first.bucket.rows >= max(1, self._max_batch_size)

    @property
    def first_deadline(self) -> float:
        """Earliest deadline of a waiting request, on the event loop's clock; infinity where there is none."""
        return self._deadlines.first()

    @property
    def delay_until(self) -> float:
        """Earliest time at which a request ends the queue delay, on the same clock; infinity where none does."""
        return self._delay_deadlines.first()

    def count(self, level: int) -> int:
        """Counts the waiting requests of a priority level."""
        return len(self._all.line((level, False))) + len(self._all.line((level, True)))

    def check_room(self, rows: int, nbytes: int, level: int, prepared: Batch | None = None) -> None:
        """Checks that one more request may wait.

        Args:
            rows: Rows of the request.
            nbytes: Bytes of its tensors; 0 where they are not known yet.
            level: Its priority level.
            prepared: Batch that has left the queue and waits for an engine; its requests count as waiting.

        Raises:
            QueueFullError: Too many requests, rows or bytes are waiting.
        """
        options, waiting_rows, waiting_bytes = self._options, self.rows, self.nbytes
        if prepared is not None:
            waiting_rows += prepared.rows
            waiting_bytes += prepared.nbytes
        if waiting_rows + rows > options.max_queue_rows:
            raise QueueFullError(
                f"model '{self.name}': {waiting_rows} rows are waiting, and {rows} more would exceed the limit of "
                f"{options.max_queue_rows}; try again later"
            )
        if waiting_rows and waiting_bytes + nbytes > options.max_queue_bytes:
            raise QueueFullError(
                f"model '{self.name}': {waiting_bytes} bytes are waiting, and {nbytes} more would exceed the limit of "
                f"{options.max_queue_bytes}; try again later"
            )
        if not self._limits_requests:
            return
        limit = self._max_requests.get(level, options.queue.default_policy.max_requests)
        if limit and self.count(level) >= limit:
            of_level = f" of priority level {level}" if options.queue.levels else ""
            raise QueueFullError(
                f"model '{self.name}': {self.count(level)} requests{of_level} are waiting, and max_queue_size is "
                f"{limit}; try again later"
            )

    def add(
        self,
        work: InferenceWork,
        reply: Reply,
        level: int = 0,
        *,
        deadline: float | None = None,
        delay_until: float | None = None,
    ) -> WaitingRequest:
        """Puts a request behind those of its priority level.

        Args:
            work: The request.
            reply: Where its outcome goes.
            level: Its priority level.
            deadline: Time at which its caller's time is up, on the event loop's clock.
            delay_until: Time at which it ends the queue delay, on the same clock.
        """
        number, rank = self.arrivals, (level, False) if level else _NO_RANK
        bucket = self._bucket_of(work)
        self.last_admitted_ns = now_ns = self._ns()
        request = WaitingRequest(number, work, reply, rank, bucket, now_ns)
        self.arrivals = number + 1
        self._requests[number] = request
        self._all.append(rank, number, request)
        bucket.append(rank, number, request)
        self._change_rows(bucket, work.rows)
        self.nbytes += work.nbytes
        if deadline is not None:
            self._deadlines.add(deadline, number)
        if delay_until is not None:
            self._delay_deadlines.add(delay_until, number)
        return request

    def remove(self, request: WaitingRequest) -> None:
        """Takes a request out; does nothing if it is not there any more."""
        number = request.number
        if self._requests.pop(number, None) is None:
            return
        bucket: Bucket = request.bucket
        self._all.remove(request.rank, number)
        bucket.remove(request.rank, number)
        self._change_rows(bucket, -request.work.rows)
        self.nbytes -= request.work.nbytes

    def postpone(self, request: WaitingRequest) -> None:
        """Puts a waiting request behind all others of its level, and those that will come."""
        number, late = request.number, (request.rank[0], True)
        for order in (self._all, request.bucket):
            order.remove(request.rank, number)
            order.append(late, number, request)
        request.rank = late

    def oldest(self) -> WaitingRequest:
        """Finds the request that has waited longest; there must be one."""
        return next(iter(self._requests.values()))

    def take_batch(self, *, as_many_as_fit: bool = False) -> list[WaitingRequest]:
        """Takes the first request and those behind it in its bucket; not those already answered.

        Args:
            as_many_as_fit: Ignore preferred sizes. Otherwise the batch has the largest preferred size that the requests
                make up in their order; where they make up none, as many as fit.
        """
        while (first := self._all.first()) is not None and first.reply.done():
            self.remove(first)  # it must not choose the bucket
        if first is None:
            return []
        bucket: Bucket = first.bucket
        limit = self._max_batch_size
        if self._preferred and not as_many_as_fit:
            limit = self._largest_preferred(bucket) or limit
        batch: list[WaitingRequest] = []
        gone: list[WaitingRequest] = []
        rows = 0
        for request in bucket:
            if request.reply.done():
                gone.append(request)
                continue
            rows += request.work.rows
            if batch and rows > limit:
                break
            batch.append(request)
            if rows >= limit:
                break
        self._take(bucket, batch)
        for request in gone:
            self.remove(request)
        return batch

    def take_all(self) -> list[WaitingRequest]:
        """Takes everything."""
        requests = list(self._requests.values())
        for request in requests:
            self.remove(request)
        return requests

    def _largest_preferred(self, bucket: Bucket) -> int:
        """Finds the largest preferred size that the first requests of a bucket make up; 0 where they make up none."""
        rows, size = 0, 0
        for request in bucket:
            rows += 0 if request.reply.done() else request.work.rows
            if rows > self._max_batch_size:
                break
            if rows in self._preferred:
                size = rows
        return size

    def _take(self, bucket: Bucket, batch: Sequence[WaitingRequest]) -> None:
        """Takes requests of one bucket out."""
        requests, rank = self._requests, None
        rows = 0
        for request in batch:
            if request.rank is not rank:
                rank = request.rank
                line, line_of_bucket = self._all.line(rank), bucket.line(rank)
            number, work = request.number, request.work
            del requests[number], line[number], line_of_bucket[number]
            rows += work.rows
            self.nbytes -= work.nbytes
        self._change_rows(bucket, -rows)

    def _change_rows(self, bucket: Bucket, rows: int) -> None:
        was_full = bucket.rows >= self._full_rows
        bucket.rows += rows
        self.rows += rows
        if (bucket.rows >= self._full_rows) is not was_full:
            self._full_buckets += -1 if was_full else 1
        if not bucket.rows and len(self._buckets) > _KEPT_BUCKETS:
            self._buckets.pop(bucket.key, None)

    def _bucket_of(self, work: InferenceWork) -> Bucket:
        if work.alone:
            return Bucket(None)
        if self._max_batch_size:
            feeds = work.feeds
            key: Hashable = tuple([(name, array.shape[1:], array.dtype) for name, array in feeds.items()])
        else:
            key = None
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = Bucket(key)
        return bucket

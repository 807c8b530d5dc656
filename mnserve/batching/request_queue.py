"""Queue of the requests that wait for one model: their order, who may share a batch, and how many may wait.

Only requests whose inputs have the same shapes (rows apart) share a batch. A batch always serves the first request in
the order and those behind it in its bucket. Among equals the first is the oldest, so none is overtaken for ever. A
higher priority overtakes a lower one for as long as there is any of it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from mnserve.batching.options import BatcherOptions
from mnserve.batching.priority_queue import Earliest, PriorityQueue
from mnserve.codec.decoding import InferenceWork
from mnserve.errors import QueueFullError
from mnserve.execution.batch import Batch
from mnserve.execution.clock import Clock
from mnserve.execution.request import Reply, WaitingRequest


class RequestQueue:
    """Requests in the order of their arrival, in the order in which they run, and the latter by bucket.

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
        self._options = options
        self._max_batch_size = options.max_batch_size
        self._preferred = frozenset(options.preferred_sizes)
        self._full_rows = min(self._preferred, default=max(1, options.max_batch_size))
        self._max_requests = {level: policy.max_requests for level, policy in options.queue.policies.items()}
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
        """True if a bucket holds a full batch, or as many rows as the smallest preferred one."""
        return bool(self._full_buckets)

    @property
    def next_is_full(self) -> bool:
        """True if the first request and those behind it in its bucket have the rows of a full batch."""
        if not self._by_priority:
            return False
        return self._bucket_rows[self._by_priority.first().bucket] >= max(1, self._max_batch_size)

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
        return self._by_priority.count((level, False)) + self._by_priority.count((level, True))

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
        *,
        level: int = 0,
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
        request = WaitingRequest(
            number=self._arrivals,
            work=work,
            bucket=self._bucket_of(work),
            rank=(level, False),
            reply=reply,
            admitted_ns=self.clock.ns(),
        )
        self._arrivals += 1
        self._requests[request.number] = request
        self._insert(request)
        self._set_rows(request.bucket, self._bucket_rows.get(request.bucket, 0) + work.rows)
        if deadline is not None:
            self._deadlines.add(deadline, request.number)
        if delay_until is not None:
            self._delay_deadlines.add(delay_until, request.number)
        self.rows += work.rows
        self.nbytes += work.nbytes
        return request

    def remove(self, request: WaitingRequest) -> None:
        """Takes a request out; does nothing if it is not there any more."""
        if self._requests.pop(request.number, None) is None:
            return
        self._take_out(request)
        self._set_rows(request.bucket, self._bucket_rows[request.bucket] - request.work.rows)
        if not self._buckets[request.bucket]:
            del self._buckets[request.bucket], self._bucket_rows[request.bucket]
        self.rows -= request.work.rows
        self.nbytes -= request.work.nbytes

    def postpone(self, request: WaitingRequest) -> None:
        """Puts a waiting request behind all others of its level, and those that will come."""
        self._take_out(request)
        request.rank = (request.rank[0], True)
        self._insert(request)

    def oldest(self) -> WaitingRequest:
        """Finds the request that has waited longest; there must be one."""
        return next(iter(self._requests.values()))

    def take_batch(self, *, as_many_as_fit: bool = False) -> list[WaitingRequest]:
        """Takes the first request and those behind it in its bucket; not those already answered.

        Args:
            as_many_as_fit: Ignore preferred sizes. Otherwise the batch has the largest preferred size that the requests
                make up in their order; where they make up none, as many as fit.
        """
        while self._by_priority:
            first = self._by_priority.first()
            if not first.reply.done():
                break
            self.remove(first)  # it must not choose the bucket
        else:
            return []
        bucket = self._buckets[first.bucket]
        limit = self._max_batch_size
        if self._preferred and not as_many_as_fit:
            limit = self._largest_preferred(bucket) or limit
        batch: list[WaitingRequest] = []
        rows = 0
        while bucket:
            request = bucket.first()
            if batch and rows + request.work.rows > limit:
                break
            self.remove(request)
            if not request.reply.done():
                batch.append(request)
                rows += request.work.rows
        return batch

    def take_all(self) -> list[WaitingRequest]:
        """Takes everything."""
        requests = list(self._requests.values())
        for request in requests:
            self.remove(request)
        return requests

    def _largest_preferred(self, bucket: PriorityQueue[WaitingRequest]) -> int:
        """Finds the largest preferred size that the first requests of a bucket make up; 0 where they make up none."""
        rows, size = 0, 0
        for request in bucket:
            rows += 0 if request.reply.done() else request.work.rows
            if rows > self._max_batch_size:
                break
            if rows in self._preferred:
                size = rows
        return size

    def _insert(self, request: WaitingRequest) -> None:
        self._by_priority.append(request.rank, request.number, request)
        bucket = self._buckets.get(request.bucket)
        if bucket is None:
            bucket = self._buckets[request.bucket] = PriorityQueue()
        bucket.append(request.rank, request.number, request)

    def _take_out(self, request: WaitingRequest) -> None:
        self._by_priority.remove(request.rank, request.number)
        self._buckets[request.bucket].remove(request.rank, request.number)

    def _set_rows(self, bucket: Hashable, rows: int) -> None:
        self._bucket_rows[bucket] = rows
        if rows >= self._full_rows:
            self._full_buckets.add(bucket)
        else:
            self._full_buckets.discard(bucket)

    def _bucket_of(self, work: InferenceWork) -> Hashable:
        if self._max_batch_size == 0:
            return None
        if work.alone:
            return object()
        return tuple((name, array.shape[1:], array.dtype.str) for name, array in work.feeds.items())

"""Forming of batches: when the next one forms, and of which requests.

A batch forms once the event loop comes round and an instance is idle, or after a queue delay for more requests.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from mnserve.batching.moment import WaitingMoment
from mnserve.batching.options import BatcherOptions
from mnserve.batching.queue_policy import QueueRules
from mnserve.batching.request_limits import RequestLimits
from mnserve.batching.request_queue import RequestQueue
from mnserve.execution.batch import Batch
from mnserve.execution.clock import Clock
from mnserve.execution.instances import Instances
from mnserve.execution.request import WaitingRequest
from mnserve.execution.results import BatchResult

_log = logging.getLogger(__name__)

_DEADLINE_MARGIN: Final = 0.02
"""Seconds, beside the time of the last batch, before a deadline at which a queue delay ends."""


class Dispatcher:
    """Takes requests from the queue and puts batches of them to the instances.

    Args:
        queue: The waiting requests.
        instances: Engines that run the batches.
        options: Limits of the batcher.
        clock: Monotonic time.
        on_due: Called on the event loop when batches may form; calls :meth:`form_batches`.
    """

    def __init__(
        self,
        queue: RequestQueue,
        instances: Instances,
        options: BatcherOptions,
        *,
        clock: Clock,
        on_due: Callable[[], None],
    ) -> None:
        self.prepared: Batch | None = None
        """Full batch that waits for an engine, its inputs joined; its requests still count as waiting."""
        self._queue = queue
        self._instances = instances
        self._clock = clock
        self._on_due = on_due
        self._max_delay = options.max_delay or 0.0
        self._moment = WaitingMoment(queue) if options.max_delay is None else None
        self._delays = options.max_batch_size > 0 and options.max_delay != 0
        self._may_prepare = options.queue == QueueRules()  # elsewhere a later request may go first
        self._batch_seconds = 0.0
        self._timer: asyncio.Handle | None = None
        self._delay_until: float | None = None

    # When ------------------------------------------------------------------------------------------------------

    def on_arrival(self, limits: RequestLimits) -> None:
        """Has batches form if the new request may make a difference; a running delay goes on unless it may end it."""
        if self._timer is None:
            # While every engine is busy, only a full batch makes a difference.
            if self._instances.idle_count > 0 or (self.prepared is None and self._queue.has_full_batch):
                self.wake()
        elif self._delay_until is not None and self._ends_delay(limits):
            self.wake()

    def wake(self) -> None:
        """Has batches form as soon as the loop comes round; cuts a delay short."""
        if self._timer is not None:
            if self._delay_until is None:
                return
            self._timer.cancel()
            self._delay_until = None
        self._timer = asyncio.get_running_loop().call_soon(self._on_due)

    def on_done(self, batch: Batch, outcome: BatchResult | BaseException | None) -> None:
        """Notes that an engine has ended a batch, and so begins the prepared one."""
        if batch.started_ns:
            self._batch_seconds = (self._clock.ns() - batch.started_ns) / 1e9
        if self._moment is not None and isinstance(outcome, BatchResult) and batch.requests:
            self._moment.on_answered(batch, outcome.times.infer_ns)
        if self.prepared is not None:
            _log.debug("model '%s': running %d requests", self._queue.name, len(self.prepared.requests))
            self.prepared = None

    def _ends_delay(self, limits: RequestLimits) -> bool:
        """True if the request that came last may end the delay that goes on."""
        queue, until = self._queue, self._delay_until
        assert until is not None
        if queue.has_full_batch or (self._moment is not None and queue.arrivals >= self._moment.enough_at):
            return True
        if limits.deadline is not None and self._latest_start(limits.deadline) < until:
            return True
        return limits.refuses_late and queue.delay_until < until

    def _latest_start(self, deadline: float) -> float:
        return deadline - self._batch_seconds - _DEADLINE_MARGIN

    def _remaining_delay(self) -> float:
        """Computes the seconds that an idle instance still waits for more requests; 0 or less where it does not.

        A delay keeps every deadline, and ends before half the time has passed after which a request is refused.
        """
        queue = self._queue
        if self._moment is not None:
            remaining = self._moment.remaining()
        else:
            remaining = self._max_delay - (self._clock.ns() - queue.oldest().admitted_ns) / 1e9
        if remaining <= 0:
            return remaining
        now = self._clock.seconds()
        return min(remaining, self._latest_start(queue.first_deadline) - now, queue.delay_until - now)

    # What ------------------------------------------------------------------------------------------------------

    def form_batches(self, *, may_delay: bool) -> None:
        """Puts as many batches as there are idle instances; one more is prepared where it is full.

        Args:
            may_delay: An idle instance may wait for more requests.
        """
        if self._timer is not None:
            self._timer.cancel()
            self._timer = self._delay_until = None
        while self._queue and self._form_next(may_delay and self._delays):
            pass

    def _form_next(self, may_delay: bool) -> bool:
        """Puts the next batch if it may form; returns True if there may be another one."""
        idle_count = self._instances.idle_count
        if idle_count < 0:
            return False
        if idle_count == 0:
            # Every engine is busy. A full batch would not change until one is done, so its inputs are joined now.
            if self._may_prepare and self.prepared is None and self._queue.next_is_full:
                self.prepared = self._put(self._queue.take_batch())
            return False
        remaining = self._remaining_delay() if may_delay else 0.0
        if remaining > 0 and not self._queue.has_full_batch:
            self._delay_until = self._clock.seconds() + remaining
            self._timer = asyncio.get_running_loop().call_later(remaining, self._on_due)
            return False
        delay_is_over = may_delay and remaining <= 0 and self._moment is None
        batch = self._put(self._queue.take_batch(as_many_as_fit=delay_is_over))
        if batch is not None:
            _log.debug("model '%s': running %d requests", self._queue.name, len(batch.requests))
        return True

    def _put(self, requests: list[WaitingRequest]) -> Batch | None:
        if not requests:
            return None
        for request in requests:
            request.in_batch = True
        batch = Batch(requests, [request.work for request in requests])
        self._instances.put(batch)
        return batch

"""Dynamic batching: requests of one model are admitted, queued, joined to batches, and answered.

An idle instance takes the waiting requests at once; batches form by themselves while all are busy. A queue delay, in
which an idle instance waits for more requests, is optional.

``mnserve.batching.request_queue`` has the order of the requests, ``mnserve.batching.dispatcher`` forms the batches and
``mnserve.execution.instances`` runs them.

One Batcher belongs to one model and one event loop. Each engine runs in a thread of its own; everything else happens
on the loop, so no locks are needed against threads. All times are monotonic.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence

from mnserve.batching.dispatcher import Dispatcher
from mnserve.batching.failures import Failures
from mnserve.batching.options import BatcherOptions
from mnserve.batching.request_limits import RequestLimits
from mnserve.batching.request_queue import RequestQueue
from mnserve.batching.waiting_line import WaitingLine
from mnserve.codec.decoding import InferenceWork
from mnserve.errors import DeadlineExceededError, ModelNotReadyError, QueueFullError, StoppingError
from mnserve.execution.batch import Batch
from mnserve.execution.clock import Clock
from mnserve.execution.health_options import EngineHealthOptions
from mnserve.execution.instances import BatchQueue, Instance, Instances
from mnserve.execution.request import Reply, WaitingRequest
from mnserve.execution.results import BatchResult, InferenceResult
from mnserve.execution.state import ServingState

_log = logging.getLogger(__name__)


class Batcher:
    """Queues requests for the instances of one model and runs them in batches.

    Args:
        instances: Engines with their threads, at least one; the threads are shut down in the end.
        name: Name of the model, for messages.
        options: Limits.
        on_batch: Called on the loop after every successful batch.
        on_death: Called with the reason once nothing can be run any more: a broken engine, or a fault of ours.
        health: Rules by which an engine counts as broken.
        clock: Monotonic time.
        queue: Queue of the waiting requests, made for the same options; None makes one.
        batches: Queue between the batcher and its engines; None makes one.
    """

    def __init__(
        self,
        instances: Sequence[Instance],
        *,
        name: str,
        options: BatcherOptions,
        on_batch: Callable[[BatchResult], None] | None = None,
        on_death: Callable[[str], None] | None = None,
        health: EngineHealthOptions | None = None,
        clock: Clock | None = None,
        queue: RequestQueue | None = None,
        batches: BatchQueue | None = None,
    ) -> None:
        self._name = name
        self._on_batch = on_batch
        self._on_death = on_death
        self._health = health or EngineHealthOptions()
        self._clock = clock or Clock()
        self._instances = Instances(
            instances,
            batched=options.max_batch_size > 0,
            max_rows=options.max_batch_size,
            run_timeout=self._health.run_timeout,
            on_done=self._done,
            on_timeout=self._time_out,
            clock=self._clock,
            batches=batches,
        )
        self._queue = RequestQueue(options, name=name, clock=self._clock) if queue is None else queue
        self._dispatcher = Dispatcher(
            self._queue, self._instances, options, clock=self._clock, on_due=self._form_batches
        )
        self._failures = Failures(name, self._health, self._clock)
        self._default_limits = RequestLimits.under(options.queue)
        self._line = WaitingLine(name, self._clock)
        self._finished = asyncio.Event()
        self._state = ServingState.RUNNING
        self._fault = ""

    @property
    def state(self) -> ServingState:
        """State, as :class:`ServingState` draws it."""
        return self._state

    @property
    def waiting_requests(self) -> int:
        """Number of requests that wait for an engine."""
        prepared = self._dispatcher.prepared
        return len(self._queue) + (0 if prepared is None else len(prepared.requests))

    @property
    def waiting_rows(self) -> int:
        """Number of rows that wait for an engine."""
        prepared = self._dispatcher.prepared
        return self._queue.rows + (0 if prepared is None else prepared.rows)

    @property
    def waiting_bytes(self) -> int:
        """Bytes of the tensors that wait for an engine."""
        prepared = self._dispatcher.prepared
        return self._queue.nbytes + (0 if prepared is None else prepared.nbytes)

    @property
    def idle(self) -> bool:
        """True if nothing waits and nothing runs."""
        return self._finished.is_set() or not (self._queue or self._line.turns or self._instances.outstanding)

    @property
    def hung(self) -> bool:
        """True if a batch did not end in time: its thread, and what it holds, are lost."""
        return self._instances.state is ServingState.BROKEN

    def show_running_in(self, cells: memoryview[int]) -> None:
        """Shows which engines run a batch in cells, such as memory that other processes read: not 0 while one does."""
        self._instances.running = cells

    def start(self) -> None:
        """Begins to serve. Needs a running event loop."""
        self._instances.start()
        self._dispatcher.wake()

    async def infer(
        self,
        work: InferenceWork,
        limits: RequestLimits | None = None,
        on_admitted: Callable[[int], None] | None = None,
    ) -> InferenceResult:
        """Queues a request, and waits for its outputs.

        Args:
            work: The request; at most ``max_batch_size`` rows.
            limits: Its priority and times; None for those of a request that asks for nothing.
            on_admitted: Called with the bytes of its tensors once it is in the queue. A request that has one waits for
                room, instead of being refused.

        Raises:
            QueueFullError: Too many requests, rows or bytes are waiting.
            QueueTimeoutError: It waited longer than it may.
            StoppingError: The batcher admits nothing new.
            ModelNotReadyError: An engine is broken, or the batcher is.
            DeadlineExceededError: Time is up; also while the engine is busy.
            EngineRunError: The engine failed on this request alone.
        """
        limits = self._default_limits if limits is None else limits
        future: asyncio.Future[InferenceResult] = asyncio.get_running_loop().create_future()
        request = await self.admit_later(work, limits, future, on_admitted)
        try:
            return await future
        except asyncio.CancelledError:
            self.withdraw(request)
            if future.done() and not future.cancelled():
                future.exception()  # asyncio logs exceptions that were never looked at
            raise

    def admit(self, work: InferenceWork, limits: RequestLimits, reply: Reply) -> WaitingRequest:
        """Queues a request, without a task that waits for it.

        Its tensors are read until ``reply`` has the outcome. Where that comes early, by :meth:`withdraw` or a deadline,
        an engine may be reading them still: ``in_batch`` of the request tells, and ``on_unread`` is called in the end.

        Args:
            work: The request; at most ``max_batch_size`` rows.
            limits: Its priority and times.
            reply: Gets the outcome on the event loop, once: a result, or an error as :meth:`infer` raises it.

        Returns:
            The request, to withdraw it by.

        Raises:
            QueueFullError: Too many requests, rows or bytes are waiting.
            StoppingError: The batcher admits nothing new.
            ModelNotReadyError: An engine is broken, or the batcher is.
            DeadlineExceededError: Its time was up on arrival.
        """
        self._check_admission(work.rows, work.nbytes, limits.level)
        return self._enqueue(work, limits, reply)

    async def admit_later(
        self,
        work: InferenceWork,
        limits: RequestLimits,
        reply: Reply,
        on_admitted: Callable[[int], None] | None = None,
    ) -> WaitingRequest:
        """Queues a request as :meth:`admit` does, once there is room.

        Args:
            work: The request; at most ``max_batch_size`` rows.
            limits: Its priority and times.
            reply: Gets the outcome.
            on_admitted: See :meth:`infer`; without one the request is refused where there is no room.

        Raises:
            QueueTimeoutError: It waited longer than it may.
            QueueFullError, StoppingError, ModelNotReadyError, DeadlineExceededError: As from :meth:`admit`.
        """
        if on_admitted is None:
            return self.admit(work, limits, reply)
        limits = await self._wait_for_room(work, limits)
        request = self._enqueue(work, limits, reply)
        on_admitted(work.nbytes)
        return request

    def withdraw(self, request: WaitingRequest) -> None:
        """Drops a request whose caller has left; its reply gets nothing any more. Does nothing after its end."""
        request.forget_caller()
        self._leave_queue(request)

    def reject_early(self, rows: int, level: int = 0) -> None:
        """Rejects a request that would not be admitted now, before the work of decoding it.

        Args:
            rows: Rows of the request.
            level: Its priority level.

        Raises:
            ModelNotReadyError: An engine is broken, or the batcher is.
            StoppingError: Nothing new is admitted.
            QueueFullError: Too many requests, rows or bytes are waiting.
        """
        self._check_admission(rows, 0, level)

    def refuse(self) -> None:
        """Admits nothing new from now on."""
        self._state = self._state.moved_to(ServingState.DRAINING)
        self._dispatcher.wake()

    async def drain(self) -> None:
        """Admits nothing new, finishes the waiting requests, and ends the threads."""
        self.refuse()
        await self._finished.wait()
        self._state = self._state.moved_to(ServingState.STOPPED)
        self._instances.stop()

    def abort(self) -> None:
        """Gives up on everything that waits or runs; for a drain that takes too long."""
        self._state = self._state.moved_to(ServingState.STOPPED)
        self._fail_all(StoppingError(f"model '{self._name}': the server stopped before this request could finish"))
        self._discard_batches()
        self._instances.stop()
        self._finished.set()

    def _enqueue(self, work: InferenceWork, limits: RequestLimits, reply: Reply) -> WaitingRequest:
        if limits.deadline is not None and limits.deadline <= self._clock.seconds():
            raise DeadlineExceededError(f"model '{self._name}': the deadline had passed on arrival")
        request = self._queue.add(
            work,
            reply,
            level=limits.level,
            deadline=limits.deadline,
            delay_until=self._clock.seconds() + limits.max_wait / 2 if limits.refuses_late else None,
        )
        if limits.deadline is not None or limits.max_wait:
            limits.start_timers(request, self._queue, self._end_early)
        self._dispatcher.on_arrival(limits)
        return request

    def _end_early(self, request: WaitingRequest, error: Exception) -> None:
        """Ends a request, in the queue or in a batch, because of its limits."""
        request.fail(error)
        self._leave_queue(request)

    def _leave_queue(self, request: WaitingRequest) -> None:
        self._queue.remove(request)
        if self._line.turns:
            self._line.wake()

    def _check_admission(self, rows: int, nbytes: int, level: int) -> None:
        if self._state is ServingState.BROKEN:
            raise ModelNotReadyError(f"model '{self._name}' is not ready: {self._fault}")
        if self._state is not ServingState.RUNNING:
            raise StoppingError(f"model '{self._name}' is stopping and takes no new requests; try another server")
        self._queue.check_room(rows, nbytes, level, self._dispatcher.prepared)

    async def _wait_for_room(self, work: InferenceWork, limits: RequestLimits) -> RequestLimits:
        """Waits until a request may be queued, also while the batcher drains; what waits was read already.

        Returns:
            Its limits, with less time to wait in the queue by what it has waited here.
        """
        if not self._line.has(limits.level):
            with contextlib.suppress(QueueFullError):
                self._check_admission(work.rows, work.nbytes, limits.level)
                return limits
        elif self._state is not ServingState.RUNNING:
            self._check_admission(work.rows, work.nbytes, limits.level)

        def check() -> None:
            if self._state is ServingState.DRAINING:
                self._queue.check_room(work.rows, work.nbytes, limits.level, self._dispatcher.prepared)
            else:
                self._check_admission(work.rows, work.nbytes, limits.level)

        try:
            return await self._line.wait(limits, check)
        finally:
            if self._state is not ServingState.RUNNING:
                self._dispatcher.wake()  # this may have been the last that a drain waits for

    # Batches --------------------------------------------------------------------------------------------------

    def _form_batches(self) -> None:
        try:
            self._dispatcher.form_batches(may_delay=self._state is ServingState.RUNNING)
        except BaseException as error:  # noqa: BLE001 (after any error, since no caller may wait for ever)
            self._die(error)
        if self._line.turns:
            self._line.wake()
        elif self._state is not ServingState.RUNNING and not self._instances.outstanding and not self._queue:
            self._finished.set()

    def _done(self, batch: Batch, outcome: BatchResult | BaseException | None) -> None:
        """Ends a batch. An engine is given the next one first, then callers get their answers."""
        self._dispatcher.on_done(batch, outcome)
        if isinstance(outcome, BatchResult):
            self._form_batches()
        try:
            self._settle(batch, outcome)
        except BaseException as error:  # noqa: BLE001 (the same)
            self._die(error, batch.requests)
            batch.let_go()
        if not isinstance(outcome, BatchResult):
            batch.let_go()
            self._form_batches()

    def _settle(self, batch: Batch, outcome: BatchResult | BaseException | None) -> None:
        if isinstance(outcome, BatchResult):
            if self._on_batch is not None and batch.requests:
                self._on_batch(outcome)
            batch.answer(outcome)
        elif outcome is not None and batch.requests:
            for further in self._failures.follow_up(batch, outcome):
                if self._state is not ServingState.BROKEN and not self._finished.is_set():
                    self._instances.put(further)
        elif outcome is not None:
            self._break(f"its engine fails on what it ran when it was loaded ({outcome})")

    # Faults ---------------------------------------------------------------------------------------------------

    def _time_out(self, batch: Batch) -> None:
        if self._finished.is_set():
            return  # given up before
        self._break(f"a run of its engine has not ended after {self._health.run_timeout:g} s", batch.requests)
        self._form_batches()

    def _break(self, fault: str, requests: Sequence[WaitingRequest] = ()) -> None:
        """Refuses all requests since an engine is broken; a batch that hangs is left to itself."""
        _log.error("model '%s': %s", self._name, fault)
        self._enter_broken(f"{fault}; load the model again, or restart the server", requests)

    def _die(self, error: BaseException, requests: Sequence[WaitingRequest] = ()) -> None:
        """Refuses all requests since this code has a fault."""
        _log.error("model '%s': its batch loop died", self._name, exc_info=error)
        self._enter_broken(f"its batch loop died ({type(error).__name__}: {error}); restart the server", requests)

    def _enter_broken(self, fault: str, requests: Sequence[WaitingRequest]) -> None:
        """Refuses all requests from now on.

        Args:
            fault: Reason, with the remedy.
            requests: Requests that neither wait nor belong to a batch of the instances.
        """
        before, self._state = self._state, self._state.moved_to(ServingState.BROKEN)
        entered = self._state is not before
        self._fault = fault if entered else self._fault
        self._fail_all(ModelNotReadyError(f"model '{self._name}' is not ready: {self._fault}"), requests)
        self._discard_batches()
        if entered and self._on_death is not None:
            self._on_death(self._fault)

    def _fail_all(self, error: Exception, requests: Sequence[WaitingRequest] = ()) -> None:
        for request in [*requests, *self._instances.requests(), *self._queue.take_all()]:
            request.fail(error)
        self._line.wake()

    def _discard_batches(self) -> None:
        """Takes back the batches that no engine has begun; their callers were told."""
        self._dispatcher.prepared = None
        for batch in self._instances.discard():
            batch.let_go()

"""Dynamic batching: who waits, who runs together, and who is let go.

An idle instance takes what is waiting at once; batches form by themselves while all are busy. A delay that waits for
company is optional. ``mnserve.batching.request_queue`` has the order, ``mnserve.execution.instances`` the runs.

One Batcher belongs to one model and one event loop. Each engine runs in a thread of its own; everything else happens
on the loop, so no locks are needed against threads. All times are monotonic.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Sequence

from mnserve.batching.admission import check_admission_limits
from mnserve.batching.dispatch_timer import DispatchTimer
from mnserve.batching.options import BatcherOptions
from mnserve.batching.queue_delay import remaining_delay
from mnserve.batching.queue_policy import QueueRules
from mnserve.batching.request_queue import InferenceResult, RequestQueue, WaitingRequest
from mnserve.batching.time_limits import TimeLimits
from mnserve.errors import (
    DeadlineExceededError,
    EngineInputError,
    ModelNotReadyError,
    StoppingError,
)
from mnserve.execution.batch import BatchResult, InferenceWork
from mnserve.execution.health_options import PROBE_SECONDS, EngineHealthOptions
from mnserve.execution.instances import Instance, Instances, Run

__all__ = ["Batcher", "InferenceResult"]

_log = logging.getLogger(__name__)


class Batcher:
    """Queues requests for the instances of one model and runs them in batches.

    Args:
        instances: What runs them, at least one; their threads are shut down in the end.
        name: Name of the model, for messages.
        options: Limits.
        on_batch: Called on the loop after every successful run.
        on_death: Called with the reason once nothing can be run any more: an engine that is broken, or a fault of ours.
        watch: When an engine counts as broken.
    """

    def __init__(
        self,
        instances: Sequence[Instance],
        *,
        name: str,
        options: BatcherOptions,
        on_batch: Callable[[BatchResult], None] | None = None,
        on_death: Callable[[str], None] | None = None,
        watch: EngineHealthOptions | None = None,
    ) -> None:
        self._name = name
        self._options = options
        self._on_batch = on_batch
        self._on_death = on_death
        self._watch = watch or EngineHealthOptions()
        self._engines = Instances(
            instances,
            batched=options.max_batch_size > 0,
            max_rows=options.max_batch_size,
            run_timeout=self._watch.run_timeout,
            on_done=self._done,
            on_hang=self._hang,
        )
        self._waiting = RequestQueue(options.max_batch_size, options.preferred_sizes)
        self._running: set[WaitingRequest] = set()
        self._ahead: Run | None = None
        self._may_run_ahead = options.queue == QueueRules()
        self._run_seconds = 0.0
        self._probed = -math.inf
        self._alarm = DispatchTimer(self._dispatch)
        self._idle = asyncio.Event()
        self._stopping = False
        self._dead: str | None = None

    @property
    def waiting_requests(self) -> int:
        """Requests that wait for a run."""
        return len(self._waiting) + (0 if self._ahead is None else len(self._ahead.requests))

    @property
    def waiting_rows(self) -> int:
        """Rows that wait for a run."""
        return self._waiting.rows + self._rows_ahead

    @property
    def waiting_bytes(self) -> int:
        """Bytes of the tensors that wait for a run."""
        return self._waiting.nbytes + self._bytes_ahead

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing runs."""
        return self._idle.is_set() or not (self._waiting or self._running or self._engines.outstanding)

    @property
    def hung(self) -> bool:
        """Whether some run did not end in time: its thread, and what it holds, are lost."""
        return self._engines.hung

    def start(self) -> None:
        """Begins to serve. Needs a running event loop."""
        self._engines.start()
        self._alarm.set()

    async def infer(
        self, work: InferenceWork, *, deadline: float | None = None, level: int | None = None, wait: float = 0.0
    ) -> InferenceResult:
        """Waits for a turn, runs, and returns this caller's rows.

        Args:
            work: The request; at most ``max_batch_size`` rows.
            deadline: When the caller's time is up, on the event loop's clock.
            level: Its priority level; None is the default.
            wait: Seconds that it asks to wait for its turn at most, which its level's policy may allow; 0 for no limit.

        Raises:
            QueueFullError: Too many requests, rows or bytes are waiting.
            QueueTimeoutError: It waited longer than it may.
            StoppingError: The batcher admits nothing new.
            ModelNotReadyError: An engine is broken, or a batch loop died.
            DeadlineExceededError: Time is up; also while the engine is busy.
            EngineRunError: The engine failed on this request alone.
        """
        loop = asyncio.get_running_loop()
        rules = self._options.queue
        level = rules.default_level if level is None else level
        self.check_admission(work.rows, work.nbytes, level=level)
        if deadline is not None and deadline <= loop.time():
            raise DeadlineExceededError(f"model '{self._name}': the deadline had passed on arrival")
        limits = TimeLimits.of(rules.policy(level), deadline=deadline, asked=wait)
        item = self._waiting.add(
            work,
            loop.create_future(),
            level=level,
            deadline=deadline,
            delay_until=loop.time() + limits.longest / 2 if limits.refusable else None,
        )
        # An engine that waits for company goes on waiting unless this request changes how long.
        if not self._alarm.sleeping or deadline is not None or limits.refusable or self._waiting.has_full_batch:
            self._alarm.set()
        timers = limits.start(item, self._waiting, self._name)
        try:
            return await item.future
        finally:
            for timer in timers:
                timer.cancel()
            self._waiting.remove(item)  # the caller may have been cancelled while it waited
            if item.future.done() and not item.future.cancelled():
                item.future.exception()  # asyncio logs exceptions that nobody looked at

    def refuse(self) -> None:
        """Admits nothing new from now on."""
        self._stopping = True
        self._alarm.set()

    async def drain(self) -> None:
        """Admits nothing new, finishes what waits, and ends the threads."""
        self.refuse()
        await self._idle.wait()
        self._engines.stop()

    def abort(self) -> None:
        """Gives up on everything that waits or runs; for a drain that takes too long."""
        self._stopping = True
        self._fail_all(StoppingError(f"model '{self._name}': the server stopped before this request could finish"))
        self._discard()
        self._running.clear()
        self._engines.stop()
        self._idle.set()

    # Admission ------------------------------------------------------------------------------------------------

    def check_admission(self, rows: int, nbytes: int = 0, *, level: int = 0) -> None:
        """Whether a request would be let in now.

        Raises:
            ModelNotReadyError: An engine is broken, or a batch loop died.
            StoppingError: Nothing new is admitted.
            QueueFullError: Too many requests, rows or bytes are waiting.
        """
        if self._dead is not None:
            raise ModelNotReadyError(f"model '{self._name}' is not ready: {self._dead}")
        if self._stopping:
            raise StoppingError(f"model '{self._name}' is stopping and takes no new requests; try another server")
        room = (self._rows_ahead, self._bytes_ahead)
        check_admission_limits(
            self._waiting, self._options, self._name, rows=rows, nbytes=nbytes, level=level, ahead=room
        )

    def _fail_all(self, error: Exception) -> None:
        for item in [*self._running, *self._waiting.take_all()]:
            if not item.future.done():
                item.future.set_exception(error)

    # Dispatch -------------------------------------------------------------------------------------------------

    def _dispatch(self) -> None:
        self._alarm.clear()
        try:
            while self._dead is None and self._waiting and self._run_next():
                pass
        except BaseException as error:  # noqa: BLE001 (whatever it was, nobody may wait for ever)
            self._die(error)
        if self._stopping and not self._engines.outstanding and not self._waiting:
            self._idle.set()

    def _run_next(self) -> bool:
        """Has the next batch run if it may; returns whether there may be another one."""
        busy = self._engines.outstanding - len(self._engines)
        if busy > 0:
            return False
        if busy == 0:
            # Every engine is busy. A whole batch would not change any more until one is done, so it is laid out now.
            if self._may_run_ahead and self._ahead is None and self._waiting.next_is_whole:
                self._ahead = self._run(self._waiting.take_batch(), ahead=True)
            return False
        left, due = 0.0, False
        if not self._stopping:
            left, due = remaining_delay(self._waiting, self._options, self._run_seconds)
        if left > 0:
            self._alarm.set(left)
            return False
        self._run(self._waiting.take_batch(as_many_as_fit=due))
        return True

    def _run(self, batch: Sequence[WaitingRequest], *, ahead: bool = False) -> Run | None:
        if not batch:
            return None
        if not ahead:
            _log.debug("model '%s': running %d requests", self._name, len(batch))
        run = Run(batch, [item.work for item in batch])
        self._running.update(batch)
        self._engines.put(run)
        return run

    def _done(self, run: Run, outcome: BatchResult | BaseException | None) -> None:
        """A run is done: the next one first, then the answers."""
        if self._ahead is not None:
            _log.debug("model '%s': running %d requests", self._name, len(self._ahead.requests))
            self._ahead = None
        if run.began_ns:
            self._run_seconds = (time.monotonic_ns() - run.began_ns) / 1e9
        if isinstance(outcome, BatchResult):
            self._dispatch()
        try:
            self._hand_out(run, outcome)
        except BaseException as error:  # noqa: BLE001 (the same)
            self._die(error)
        self._running.difference_update(item for item in run.requests if item.future.done())  # others are run again
        if not isinstance(outcome, BatchResult):
            self._dispatch()

    def _hand_out(self, run: Run, outcome: BatchResult | BaseException | None) -> None:
        if isinstance(outcome, BaseException):
            self._fail(run, outcome)
            return
        if outcome is None or not run.requests:
            return
        if self._on_batch is not None:
            self._on_batch(outcome)
        for item, arrays in zip(run.requests, outcome.answers, strict=True):
            if not item.future.done():
                queue_ns = run.began_ns - item.admitted_ns
                item.future.set_result(InferenceResult(arrays=arrays, queue_ns=queue_ns, times=outcome.times))

    # Failures -------------------------------------------------------------------------------------------------

    def _fail(self, run: Run, error: BaseException) -> None:
        """A run failed. Each of its requests is run alone, so that only the guilty one gets the error."""
        if not run.requests:
            self._break(f"its engine fails on what it ran when it was loaded ({error})")
        elif len(run.requests) > 1:
            _log.warning("model '%s': a batch of %d requests failed, retrying singly", self._name, len(run.requests))
            for item in run.requests:
                if not item.future.done() and self._dead is None:
                    self._engines.put(Run([item], [item.work]))
        else:
            if not run.requests[0].future.done():
                run.requests[0].future.set_exception(error)
            self._probe(error)

    def _probe(self, error: BaseException) -> None:
        """After a failure: whether the engine still runs what it ran when it was loaded."""
        probe, now = self._watch.probe, time.monotonic()
        if (
            probe is None
            or self._dead is not None
            or self._idle.is_set()
            or isinstance(error, EngineInputError)
            or now - self._probed < PROBE_SECONDS
        ):
            return
        self._probed = now
        self._engines.put(Run([], [probe]))

    def _hang(self, run: Run) -> None:
        if self._idle.is_set():
            return  # given up before
        self._break(f"a run of its engine has not ended after {self._watch.run_timeout:g} s")
        self._running.difference_update(run.requests)  # they were told
        self._dispatch()

    def _break(self, reason: str) -> None:
        """An engine is broken: nobody waits for it any longer, and a run that hangs is left to itself."""
        _log.error("model '%s': %s", self._name, reason)
        self._latch(f"{reason}; load the model again, or restart the server")

    def _die(self, error: BaseException) -> None:
        _log.error("model '%s': its batch loop died", self._name, exc_info=error)
        self._latch(f"its batch loop died ({type(error).__name__}: {error}); restart the server")

    def _latch(self, reason: str) -> None:
        """Nothing is run from now on."""
        first, self._dead = self._dead is None, self._dead or reason
        self._fail_all(ModelNotReadyError(f"model '{self._name}' is not ready: {self._dead}"))
        self._discard()
        if first and self._on_death is not None:
            self._on_death(self._dead)

    def _discard(self) -> None:
        """Forgets what no engine has begun; its callers were told."""
        self._ahead = None
        for run in self._engines.discard():
            self._running.difference_update(run.requests)

    @property
    def _rows_ahead(self) -> int:
        return 0 if self._ahead is None else self._ahead.rows

    @property
    def _bytes_ahead(self) -> int:
        return 0 if self._ahead is None else self._ahead.nbytes

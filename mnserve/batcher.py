"""Dynamic batching: who waits, who runs together, and who is let go.

An idle instance takes what is waiting at once; batches form by themselves while all are busy. A delay that waits for
company is optional. ``mnserve.waiting`` has the order, ``mnserve.instances`` the runs.

One Batcher belongs to one model and one event loop. Each engine runs in a thread of its own; everything else happens
on the loop, so no locks are needed against threads. All times are monotonic.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence

from mnserve.admission import check_room
from mnserve.batching import BatcherOptions
from mnserve.company import time_for_company
from mnserve.errors import DeadlineExceededError, ModelNotReadyError, QueueTimeoutError, StoppingError
from mnserve.execution import Execution, Work
from mnserve.instances import Instance, Runner
from mnserve.waiting import Answer, WaitingLine, WaitingRequest
from mnserve.watchdog import Watch

__all__ = ["Answer", "Batcher"]

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
        on_batch: Callable[[Execution], None] | None = None,
        on_death: Callable[[str], None] | None = None,
        watch: Watch | None = None,
    ) -> None:
        self._name = name
        self._options = options
        self._on_death = on_death
        batched = options.max_batch_size > 0
        self._runners = [
            Runner(
                item,
                name=name,
                batched=batched,
                watch=watch or Watch(),
                on_batch=on_batch,
                on_broken=self._break_off,
            )
            for item in instances
        ]
        self._waiting = WaitingLine(options.max_batch_size, options.preferred_sizes)
        self._running: set[WaitingRequest] = set()
        self._run_seconds = 0.0
        self._turn = asyncio.Lock()
        self._wake = asyncio.Event()
        self._stopping = False
        self._dead: str | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def waiting_requests(self) -> int:
        """Requests that wait for a run."""
        return len(self._waiting)

    @property
    def waiting_rows(self) -> int:
        """Rows that wait for a run."""
        return self._waiting.rows

    @property
    def waiting_bytes(self) -> int:
        """Bytes of the tensors that wait for a run."""
        return self._waiting.nbytes

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing runs."""
        return not self._waiting and not self._running

    @property
    def hung(self) -> bool:
        """Whether some run did not end in time: its thread, and what it holds, are lost."""
        return any(runner.hung for runner in self._runners)

    def start(self) -> None:
        """Begins to serve. Needs a running event loop."""
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._supervise(runner), name=f"batcher-{self._name}-{number}")
            for number, runner in enumerate(self._runners)
        ]

    async def infer(
        self, work: Work, *, deadline: float | None = None, level: int | None = None, wait: float = 0.0
    ) -> Answer:
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
        policy = rules.policy(level)
        longest = policy.longest_wait(wait)
        refusable = longest > 0 and not policy.delay_late
        item = self._waiting.add(
            work,
            loop.create_future(),
            level=level,
            deadline=deadline,
            company_until=loop.time() + longest / 2 if refusable else None,
        )
        self._wake.set()
        timers = [] if deadline is None else [loop.call_at(deadline, self._expire, item)]
        if longest:
            timers.append(loop.call_later(longest, self._refuse_late if refusable else self._postpone, item))
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
        self._wake.set()

    async def drain(self) -> None:
        """Admits nothing new, finishes what waits, and ends the threads."""
        self.refuse()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for runner in self._runners:
            runner.thread.shutdown(wait=False)

    def abort(self) -> None:
        """Gives up on everything that waits or runs; for a drain that takes too long."""
        self._stopping = True
        self._fail_all(StoppingError(f"model '{self._name}': the server stopped before this request could finish"))
        for task in self._tasks:
            task.cancel()
        for runner in self._runners:
            runner.thread.shutdown(wait=False, cancel_futures=True)

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
        check_room(self._waiting, self._options, self._name, rows=rows, nbytes=nbytes, level=level)

    def _expire(self, item: WaitingRequest) -> None:
        self._waiting.remove(item)
        if not item.future.done():
            item.future.set_exception(
                DeadlineExceededError(f"model '{self._name}': the deadline passed before the answer was there")
            )

    def _refuse_late(self, item: WaitingRequest) -> None:
        if item not in self._waiting:
            return
        self._waiting.remove(item)
        if not item.future.done():
            waited = (time.monotonic_ns() - item.admitted_ns) / 1e6
            item.future.set_exception(
                QueueTimeoutError(
                    f"model '{self._name}': Request timeout expired: it waited in the queue for {waited:.3g} ms, all "
                    "that it may; try again later"
                )
            )

    def _postpone(self, item: WaitingRequest) -> None:
        if item in self._waiting:
            self._waiting.postpone(item)

    def _fail_all(self, error: Exception) -> None:
        for item in [*self._running, *self._waiting.take_all()]:
            if not item.future.done():
                item.future.set_exception(error)

    # The batch loops ------------------------------------------------------------------------------------------

    async def _supervise(self, runner: Runner) -> None:
        try:
            await self._serve(runner)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 (whatever it was, nobody may wait for ever)
            _log.exception("model '%s': a batch loop died", self._name)
            self._latch(f"its batch loop died ({type(error).__name__}: {error}); restart the server")

    def _break_off(self, reason: str) -> None:
        """An engine is broken: nobody waits for it any longer, and a run that hangs is left to itself."""
        _log.error("model '%s': %s", self._name, reason)
        self._latch(f"{reason}; load the model again, or restart the server")
        for runner, task in zip(self._runners, self._tasks, strict=True):
            if runner.hung:
                task.cancel()

    def _latch(self, reason: str) -> None:
        """Nothing is run from now on."""
        first, self._dead = self._dead is None, self._dead or reason
        self._fail_all(ModelNotReadyError(f"model '{self._name}' is not ready: {self._dead}"))
        self._wake.set()
        if first and self._on_death is not None:
            self._on_death(self._dead)

    async def _serve(self, runner: Runner) -> None:
        while batch := await self._next_batch():
            self._running.update(batch)
            try:
                await runner.run(batch)
            except asyncio.CancelledError:  # its callers were told; after a fault of ours they are still to be
                self._running.difference_update(batch)
                raise
            self._running.difference_update(batch)
            self._run_seconds = runner.run_seconds

    async def _next_batch(self) -> list[WaitingRequest]:
        """What runs next; nothing in the end. One idle instance at a time waits here, the others behind it."""
        async with self._turn:
            while self._dead is None:
                if not self._waiting:
                    if self._stopping:
                        break
                    self._wake.clear()
                    await self._wake.wait()
                    continue
                left, due = 0.0, False
                if not self._stopping:
                    left, due = time_for_company(self._waiting, self._options, self._run_seconds)
                if left > 0:
                    self._wake.clear()
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._wake.wait(), left)
                elif batch := self._waiting.take_batch(as_many_as_fit=due):
                    return batch
        return []

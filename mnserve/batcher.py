"""Dynamic batching: who waits, who runs together, and who is let go.

An idle engine takes what is waiting at once; batches form by themselves while it is busy. A delay that waits
for company is optional. ``mnserve.waiting`` has the order.

One Batcher belongs to one model and one event loop. The engine runs in a thread of its own; everything else
happens on the loop, so no locks are needed. All times are monotonic.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from mnserve.batching import BatcherOptions
from mnserve.engines.base import Engine
from mnserve.errors import (
    DeadlineExceededError,
    ModelNotReadyError,
    QueueFullError,
    StoppingError,
)
from mnserve.execution import Execution, Work, execute
from mnserve.waiting import Answer, WaitingLine, WaitingRequest

__all__ = ["Answer", "Batcher", "engine_thread"]

_log = logging.getLogger(__name__)

_DEADLINE_MARGIN = 0.02
"""Seconds, beside the time of the last run, before a deadline at which nobody waits for company any longer."""


def engine_thread(name: str) -> ThreadPoolExecutor:
    """A thread for the engine of model ``name``."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"engine-{name}")


class Batcher:
    """Queues requests for one engine and runs them in batches.

    Args:
        engine: The engine; closing it is the owner's business.
        name: Name of the model, for messages.
        options: Limits.
        on_batch: Called on the loop after every successful run.
        on_death: Called with the reason if the batch loop ends by a fault of its own.
        thread: The one thread that the engine runs in, best that which loaded it; shut down in the end. By default a
            new one.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        name: str,
        options: BatcherOptions,
        on_batch: Callable[[Execution], None] | None = None,
        on_death: Callable[[str], None] | None = None,
        thread: ThreadPoolExecutor | None = None,
    ) -> None:
        self._engine = engine
        self._name = name
        self._options = options
        self._on_batch = on_batch
        self._on_death = on_death
        self._waiting = WaitingLine(options.max_batch_size)
        self._running: list[WaitingRequest] = []
        self._run_seconds = 0.0
        self._wake = asyncio.Event()
        self._stopping = False
        self._dead: str | None = None
        self._task: asyncio.Task[None] | None = None
        self._thread = thread or engine_thread(name)

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

    def start(self) -> None:
        """Begins to serve. Needs a running event loop."""
        self._task = asyncio.get_running_loop().create_task(self._supervise(), name=f"batcher-{self._name}")

    async def infer(self, work: Work, *, deadline: float | None = None) -> Answer:
        """Waits for a turn, runs, and returns this caller's rows.

        Args:
            work: The request; at most ``max_batch_size`` rows.
            deadline: When the caller's time is up, on the event loop's clock.

        Raises:
            QueueFullError: Too many rows or bytes are waiting.
            StoppingError: The batcher admits nothing new.
            ModelNotReadyError: The batch loop died.
            DeadlineExceededError: Time is up; also while the engine is busy.
            EngineRunError: The engine failed on this request alone.
        """
        loop = asyncio.get_running_loop()
        self.check_admission(work.rows, work.nbytes)
        if deadline is not None and deadline <= loop.time():
            raise DeadlineExceededError(f"model '{self._name}': the deadline had passed on arrival")
        item = self._waiting.add(work, loop.create_future(), deadline)
        self._wake.set()
        timer = None if deadline is None else loop.call_at(deadline, self._expire, item)
        try:
            return await item.future
        finally:
            if timer is not None:
                timer.cancel()
            self._waiting.remove(item)  # the caller may have been cancelled while it waited
            if item.future.done() and not item.future.cancelled():
                item.future.exception()  # asyncio logs exceptions that nobody looked at

    def refuse(self) -> None:
        """Admits nothing new from now on."""
        self._stopping = True
        self._wake.set()

    async def drain(self) -> None:
        """Admits nothing new, finishes what waits, and ends the worker thread."""
        self.refuse()
        if self._task is not None:
            await asyncio.shield(self._task)
        self._thread.shutdown(wait=False)

    def abort(self) -> None:
        """Gives up on everything that waits or runs; for a drain that takes too long."""
        self._stopping = True
        self._fail_all(StoppingError(f"model '{self._name}': the server stopped before this request could finish"))
        if self._task is not None:
            self._task.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    # Admission ------------------------------------------------------------------------------------------------

    def check_admission(self, rows: int, nbytes: int = 0) -> None:
        """Whether a request would be let in now.

        Raises:
            ModelNotReadyError: The batch loop died.
            StoppingError: Nothing new is admitted.
            QueueFullError: Too many rows or bytes are waiting.
        """
        if self._dead is not None:
            raise ModelNotReadyError(f"model '{self._name}' is not ready: {self._dead}")
        if self._stopping:
            raise StoppingError(f"model '{self._name}' is stopping and takes no new requests; try another server")
        if self._waiting.rows + rows > self._options.max_queue_rows:
            raise QueueFullError(
                f"model '{self._name}': {self._waiting.rows} rows are waiting, and {rows} more would exceed "
                f"the limit of {self._options.max_queue_rows}; try again later"
            )
        if self._waiting and self._waiting.nbytes + nbytes > self._options.max_queue_bytes:
            raise QueueFullError(
                f"model '{self._name}': {self._waiting.nbytes} bytes are waiting, and {nbytes} more would exceed "
                f"the limit of {self._options.max_queue_bytes}; try again later"
            )

    def _expire(self, item: WaitingRequest) -> None:
        self._waiting.remove(item)
        if not item.future.done():
            item.future.set_exception(
                DeadlineExceededError(f"model '{self._name}': the deadline passed before the answer was there")
            )

    def _fail_all(self, error: Exception) -> None:
        for item in [*self._running, *self._waiting.take_all()]:
            if not item.future.done():
                item.future.set_exception(error)

    # The batch loop -------------------------------------------------------------------------------------------

    async def _supervise(self) -> None:
        try:
            await self._serve()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 (whatever it was, nobody may wait for ever)
            _log.exception("model '%s': the batch loop died", self._name)
            self._dead = f"its batch loop died ({type(error).__name__}: {error}); restart the server"
            self._fail_all(ModelNotReadyError(f"model '{self._name}' is not ready: {self._dead}"))
            if self._on_death is not None:
                self._on_death(self._dead)

    async def _serve(self) -> None:
        while True:
            if not self._waiting:
                if self._stopping:
                    return
                self._wake.clear()
                await self._wake.wait()
                continue
            if await self._wait_for_company():
                self._running = self._waiting.take_batch()
                await self._run(self._running)
                self._running = []

    async def _wait_for_company(self) -> bool:
        """Whether the oldest request should run now; otherwise waits for a change and returns False.

        Nobody waits while some bucket holds a whole batch, or so long that a deadline could not be kept.
        """
        delay = self._options.max_delay
        if delay == 0 or self._stopping or self._options.max_batch_size == 0:
            return True
        left = delay - (time.monotonic_ns() - self._waiting.oldest().admitted_ns) / 1e9
        spare = self._waiting.first_deadline - asyncio.get_running_loop().time()
        left = min(left, spare - self._run_seconds - _DEADLINE_MARGIN)
        if left <= 0 or self._waiting.any_full:
            return True
        self._wake.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), left)
        return False

    async def _run(self, batch: Sequence[WaitingRequest]) -> None:
        """Runs a batch; if it fails, each of its requests alone, so that only the guilty one gets the error."""
        if not batch:
            return
        _log.debug("model '%s': running %d requests", self._name, len(batch))
        started_ns = time.monotonic_ns()
        try:
            execution = await self._execute([item.work for item in batch])
        except Exception as error:  # noqa: BLE001 (goes to the caller)
            if len(batch) == 1:
                if not batch[0].future.done():
                    batch[0].future.set_exception(error)
                return
            _log.warning("model '%s': a batch of %d requests failed, retrying singly", self._name, len(batch))
            for item in batch:
                if not item.future.done():
                    await self._run([item])
            return
        if self._on_batch is not None:
            self._on_batch(execution)
        for item, arrays in zip(batch, execution.answers, strict=True):
            if not item.future.done():
                queue_ns = started_ns - item.admitted_ns
                item.future.set_result(Answer(arrays=arrays, queue_ns=queue_ns, times=execution.times))

    async def _execute(self, works: list[Work]) -> Execution:
        batched = self._options.max_batch_size > 0
        loop = asyncio.get_running_loop()
        started = loop.time()
        execution = await loop.run_in_executor(self._thread, lambda: execute(self._engine, works, batched=batched))
        self._run_seconds = loop.time() - started
        return execution

"""Engine instances of one model: each runs batches in a thread of its own, under a limit of time.

All instances take their batches from one queue, first come first served. A batch that is put there while all are busy
runs as soon as one of them is done. The event loop has nothing to do in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from array import array
from collections.abc import Callable, MutableSequence, Sequence
from dataclasses import dataclass, replace
from functools import partial
from queue import Empty, SimpleQueue
from typing import Final, TypeAlias

from mnserve.codec.tensors import INLINE_BYTES
from mnserve.engines.base import Engine
from mnserve.execution.batch import Batch, execute
from mnserve.execution.batch_memory import BatchMemory, Lease
from mnserve.execution.clock import Clock
from mnserve.execution.engine_thread import EngineThread
from mnserve.execution.lone_batches import LoneBatches
from mnserve.execution.request import WaitingRequest
from mnserve.execution.results import BatchResult
from mnserve.execution.state import ServingState

_ROUNDING: Final = 1e-6
"""Seconds that two readings of the clock may differ by."""
_CHECK_SECONDS: Final = 1.0
"""Longest time between two checks of running batches. A late check shows how long the process stood still."""


@dataclass(frozen=True, kw_only=True)
class Instance:
    """One engine and its thread.

    Attributes:
        engine: The engine; its owner closes it.
        thread: The one thread that it runs in, best that which loaded it: CUDA graphs belong to the thread that
            captured them.
        lone_rows: Least rows of the batches that it runs, which come alone, one after the other; 0 for an instance that
            runs all others.
    """

    engine: Engine
    thread: EngineThread
    lone_rows: int = 0


BatchQueue: TypeAlias = SimpleQueue[Batch | None]
"""Queue between the event loop and the threads of the engines; None ends the thread that takes it."""


class Instances:
    """Runs batches on the engines of one model.

    Args:
        instances: The engines with their threads, at least one, and at most one more for batches that come alone.
        batched: The model has a batch dimension.
        max_rows: Most rows of a batch.
        run_timeout: Seconds that a batch may take; 0 for no limit.
        on_done: Called on the loop with a batch and its outcome; None for a batch without waiters.
        on_timeout: Called on the loop with a batch that has not ended in time.
        clock: Monotonic time.
        batches: Queue from which the engines take batches; None makes one.
    """

    def __init__(
        self,
        instances: Sequence[Instance],
        *,
        batched: bool,
        max_rows: int,
        run_timeout: float,
        on_done: Callable[[Batch, BatchResult | BaseException | None], None],
        on_timeout: Callable[[Batch], None],
        clock: Clock | None = None,
        batches: BatchQueue | None = None,
    ) -> None:
        self.state = ServingState.RUNNING
        self._instances = tuple(instance for instance in instances if not instance.lone_rows)
        self._lone_instance = next((instance for instance in instances if instance.lone_rows), None)
        self._lone = None if self._lone_instance is None else LoneBatches(self._lone_instance.lone_rows)
        self._batched = batched
        self._run_timeout = run_timeout
        self._check_period = min(_CHECK_SECONDS, run_timeout / 10)
        self._paused_seconds = 0.0
        self._on_done = on_done
        self._on_timeout = on_timeout
        self._clock = Clock() if clock is None else clock
        self._memory = BatchMemory(max_rows, spare=len(self._instances) + 1)
        self._batches: BatchQueue = SimpleQueue() if batches is None else batches
        self._lone_batches: BatchQueue = SimpleQueue()
        self._outstanding: set[Batch] = set()
        self.running: MutableSequence[int] | memoryview[int] = array("q", bytes(8))
        """Cells of the instances, which more instances share: not 0 while one runs a batch. May be replaced by memory
        that other processes read."""
        self._timer: asyncio.TimerHandle | None = None

    @property
    def outstanding(self) -> int:
        """Number of batches that run or wait for an engine; those that timed out do not count."""
        return len(self._outstanding)

    @property
    def idle_count(self) -> int:
        """Number of instances without a batch; negative where batches wait for an instance."""
        return len(self._instances) - len(self._outstanding)

    def requests(self) -> list[WaitingRequest]:
        """Lists the requests of the batches that run or wait for an engine."""
        return [request for batch in self._outstanding for request in batch.requests]

    def start(self) -> None:
        """Begins to take batches. Needs a running event loop."""
        loop = asyncio.get_running_loop()
        for index, (instance, batches) in enumerate(self._served()):
            instance.thread.post(partial(self._serve, instance.engine, batches, loop, index))

    def put(self, batch: Batch) -> None:
        """Has a batch run, after those that were put before.

        Raises:
            RuntimeError: The instances are stopped, or one of them is broken.
        """
        if self.state is not ServingState.RUNNING:
            raise RuntimeError(f"the engines are stopped ({self.state.value}): nobody would take this batch")
        self._outstanding.add(batch)
        if batch.feeds is None and batch.nbytes <= INLINE_BYTES:  # a thread would wait for the interpreter first
            with contextlib.suppress(Exception):  # the engine's thread tries again, and its error goes to the callers
                self._join(batch)
        if self._timer is None and self._run_timeout:
            self._check_after(self._check_period)
        if self._lone is not None and self._lone.has(batch.rows, alone=self._is_alone(batch)):
            self._lone_batches.put(batch)
        else:
            self._batches.put(batch)

    def stop(self) -> None:
        """Ends the threads once everything that was put is done; does not wait for them."""
        self.state = self.state.moved_to(ServingState.DRAINING)
        self._stop_if_done()
        for instance, queue in self._served():
            queue.put(None)
            instance.thread.close()

    def discard(self) -> list[Batch]:
        """Takes back the batches that no engine has begun."""
        batches = [batch for queue in (self._batches, self._lone_batches) for batch in _taken_back(queue)]
        for batch in batches:
            self._forget(batch)
        return batches

    def _served(self) -> list[tuple[Instance, BatchQueue]]:
        """Lists the instances with the queues that they take batches from."""
        pairs = [(instance, self._batches) for instance in self._instances]
        return pairs if self._lone_instance is None else [*pairs, (self._lone_instance, self._lone_batches)]

    def _is_alone(self, batch: Batch) -> bool:
        """True if nothing else runs; where one instance runs everything, a batch of several shows that others came."""
        return len(self._outstanding) == 1 and (len(self._instances) > 1 or len(batch.works) == 1)

    # Bookkeeping on the event loop ----------------------------------------------------------------------------

    def _join(self, batch: Batch) -> Lease:
        started = time.perf_counter_ns()
        lease = self._memory.join(batch.works, batch.rows)
        batch.feeds, batch.lease = lease.feeds, lease
        batch.join_ns = time.perf_counter_ns() - started
        return lease

    def _done(self, batch: Batch, outcome: BatchResult | BaseException | None) -> None:
        if batch.timed_out:
            return
        self._forget(batch)
        self._on_done(batch, outcome)

    def _forget(self, batch: Batch) -> None:
        self._outstanding.discard(batch)
        if self.state is not ServingState.RUNNING:
            self._stop_if_done()

    def _stop_if_done(self) -> None:
        if not self._outstanding:
            self.state = self.state.moved_to(ServingState.STOPPED)
            if self._timer is not None:
                self._timer.cancel()

    def _check_after(self, seconds: float) -> None:
        due = self._clock.seconds() + seconds
        self._timer = asyncio.get_running_loop().call_later(seconds, self._check_timeouts, due)

    def _check_timeouts(self, due: float) -> None:
        """Finds batches that do not end. One timer for all of them costs nothing while batches come and go.

        A late check shows that the whole process stood still, as a frozen container does. Batches did not go on either
        then, so they have that time left.
        """
        self._timer = None
        late = self._clock.seconds() - due
        if late > self._check_period / 2:
            self._paused_seconds += late
        now, next_check = self._clock.ns(), math.inf
        for batch in list(self._outstanding):
            if batch not in self._outstanding:  # taken back, since another one timed out
                continue
            used = 0.0
            if batch.started_ns:
                used = (now - batch.started_ns) / 1e9 - (self._paused_seconds - batch.paused_seconds)
            remaining = self._run_timeout - used
            if remaining > _ROUNDING:
                next_check = min(next_check, remaining)
            else:
                batch.timed_out = True
                self.state = self.state.moved_to(ServingState.BROKEN)
                self._forget(batch)
                self._on_timeout(batch)
        if self._timer is None and next_check < math.inf:
            self._check_after(min(next_check, self._check_period))

    # In the threads of the engines ----------------------------------------------------------------------------

    def _serve(self, engine: Engine, batches: BatchQueue, loop: asyncio.AbstractEventLoop, index: int) -> None:
        while (batch := batches.get()) is not None:
            outcome: BatchResult | BaseException | None = None
            batch.paused_seconds = self._paused_seconds
            batch.started_ns = self._clock.ns()
            running = self.running
            running[index % len(running)] = 1
            try:
                if batch.has_waiters:
                    outcome = self._execute(engine, batch)
            except BaseException as error:  # noqa: BLE001 (goes to the callers)
                outcome = error
            running[index % len(running)] = 0
            try:
                loop.call_soon_threadsafe(self._done, batch, outcome)
            except RuntimeError:  # the loop is closed, and no caller waits
                return
            del batch, outcome

    def _execute(self, engine: Engine, batch: Batch) -> BatchResult:
        feeds, lease = batch.feeds, batch.lease
        if feeds is None:
            lease = self._join(batch)
            feeds = lease.feeds
        if lease is None:
            return execute(engine, batch.works, feeds, batched=self._batched, join_ns=batch.join_ns)
        try:
            result = execute(engine, batch.works, feeds, batched=self._batched, join_ns=batch.join_ns)
            return replace(result, outputs=lease.detached(result.outputs))
        finally:
            self._memory.give_back(lease)


def _taken_back(queue: BatchQueue) -> list[Batch]:
    """Takes the batches out of a queue; the marks that end its threads stay in it."""
    batches: list[Batch] = []
    end_marks = 0
    with contextlib.suppress(Empty):
        while True:
            batch = queue.get_nowait()
            if batch is None:
                end_marks += 1
            else:
                batches.append(batch)
    for _ in range(end_marks):
        queue.put(None)
    return batches

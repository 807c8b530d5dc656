"""What runs batches: an engine with the thread it belongs to, once or several times for a model.

All instances take their batches from one queue, first come first served. A batch that is put there while all are busy
runs as soon as one of them is done, without anything that has to happen on the event loop in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Final

from mnserve.batching.request_queue import WaitingRequest
from mnserve.codec.tensors import INLINE_BYTES
from mnserve.engines.base import Engine
from mnserve.execution.batch import BatchResult, BatchTimes, InferenceWork, execute
from mnserve.execution.batch_memory import BatchMemory, Lease
from mnserve.execution.engine_thread import EngineThread

__all__ = ["Instance", "Instances", "Run"]

_ROUNDING: Final = 1e-6
"""Seconds that two readings of the clock may differ by."""
_LOOK_SECONDS: Final = 1.0
"""At most so long between two looks at what runs; how late a look is tells how long the process stood still."""


@dataclass(frozen=True, kw_only=True)
class Instance:
    """One engine and its thread.

    Attributes:
        engine: The engine; closing it is the owner's business.
        thread: The one thread that it runs in, best that which loaded it: CUDA graphs belong to the thread that
            captured them.
    """

    engine: Engine
    thread: EngineThread


class Run:
    """A batch on its way through an engine.

    Attributes:
        requests: Who waits for it; nobody where the server itself wants to know something.
        works: What is to be computed.
        rows: Of all of them.
        nbytes: Of their inputs.
        lease: The inputs joined; None until they are.
        began_ns: When an engine took it, on the monotonic clock; 0 before.
        join_ns: How long joining took.
        frozen: Seconds that the process had stood still when it began, in all.
        lost: Whether it did not end in time, so that nobody waits for it any more.
    """

    __slots__ = ("began_ns", "frozen", "join_ns", "lease", "lost", "nbytes", "requests", "rows", "works")

    def __init__(self, requests: Sequence[WaitingRequest], works: Sequence[InferenceWork]) -> None:
        self.requests = requests
        self.works = works
        self.rows = sum(work.rows for work in works)
        self.nbytes = sum(work.nbytes for work in works)
        self.lease: Lease | None = None
        self.began_ns = 0
        self.join_ns = 0
        self.frozen = 0.0
        self.lost = False

    @property
    def wanted(self) -> bool:
        """Whether somebody still waits for it; may be asked in any thread."""
        return not self.requests or not all(item.future.done() for item in self.requests)


class Instances:
    """The engines of one model.

    Args:
        instances: The engines with their threads, at least one.
        batched: Whether the model has a batch dimension.
        max_rows: Most rows of a batch.
        run_timeout: Seconds that a run may take; 0 for no limit.
        on_done: Called on the loop with a run and how it went; None where nobody wanted it any more.
        on_hang: Called on the loop with a run that has not ended in time.
    """

    def __init__(
        self,
        instances: Sequence[Instance],
        *,
        batched: bool,
        max_rows: int,
        run_timeout: float,
        on_done: Callable[[Run, BatchResult | BaseException | None], None],
        on_hang: Callable[[Run], None],
    ) -> None:
        self.hung = False
        """Whether a run did not end in time; its thread is lost."""
        self._instances = tuple(instances)
        self._batched = batched
        self._run_timeout = run_timeout
        self._period = min(_LOOK_SECONDS, run_timeout / 10)
        self._frozen = 0.0
        self._on_done = on_done
        self._on_hang = on_hang
        self._memory = BatchMemory(max_rows, spare=len(self._instances) + 1)
        self._runs: SimpleQueue[Run | None] = SimpleQueue()
        self._stopped = False
        self._outstanding: set[Run] = set()
        self._guard: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._instances)

    @property
    def outstanding(self) -> int:
        """Runs that are not done: those that engines work on, and those that wait for an engine; not those that are
        lost."""
        return len(self._outstanding)

    def start(self) -> None:
        """Begins to take runs. Needs a running event loop."""
        loop = asyncio.get_running_loop()
        for instance in self._instances:
            instance.thread.post(partial(self._serve, instance.engine, loop))

    def put(self, run: Run) -> None:
        """Has a batch run, after those that were put before. Not once they are stopped."""
        if self._stopped:
            raise RuntimeError("the engines are stopped: nobody would take this run")
        self._outstanding.add(run)
        if run.nbytes <= INLINE_BYTES:  # a thread would wait for the interpreter first
            with contextlib.suppress(Exception):  # the engine's thread tries again, and its error goes to the callers
                self._join(run)
        if self._guard is None and self._run_timeout:
            self._look_again(self._period)
        self._runs.put(run)

    def stop(self) -> None:
        """Ends the threads once everything that was put is done; does not wait for them."""
        self._stopped = True
        for instance in self._instances:
            self._runs.put(None)
            instance.thread.close()

    def discard(self) -> list[Run]:
        """Forgets runs that no engine has taken yet, and returns them."""
        found: list[Run] = []
        marks = 0
        with contextlib.suppress(Empty):
            while True:
                run = self._runs.get_nowait()
                if run is None:
                    marks += 1
                    continue
                self._outstanding.discard(run)
                found.append(run)
        for _ in range(marks):  # that the threads end at
            self._runs.put(None)
        return found

    def _look_again(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._guard = loop.call_later(seconds, self._check_timeouts, loop.time() + seconds)

    def _check_timeouts(self, due: float) -> None:
        """Finds runs that do not end. One timer for all of them costs nothing while runs come and go.

        A look that comes late shows that the whole process stood still, as a frozen container does: a run did not go on
        either then, and has that time left.
        """
        self._guard = None
        late = asyncio.get_running_loop().time() - due
        if late > self._period / 2:
            self._frozen += late
        now, left = time.monotonic_ns(), math.inf
        for run in list(self._outstanding):
            if run not in self._outstanding:  # forgotten, since another one hangs
                continue
            used = (now - run.began_ns) / 1e9 - (self._frozen - run.frozen) if run.began_ns else 0.0
            remaining = self._run_timeout - used
            if remaining > _ROUNDING:
                left = min(left, remaining)
            else:
                self.hung = run.lost = True
                self._outstanding.discard(run)
                self._on_hang(run)
        if self._guard is None and left < math.inf:
            self._look_again(min(left, self._period))

    def _settle(self, run: Run) -> None:
        self._outstanding.discard(run)
        if not self._outstanding and self._stopped and self._guard is not None:
            self._guard.cancel()

    def _join(self, run: Run) -> None:
        started = time.perf_counter_ns()
        run.lease = self._memory.join(run.works, run.rows)
        run.join_ns = time.perf_counter_ns() - started

    def _done(self, run: Run, outcome: BatchResult | BaseException | None) -> None:
        if run.lost:
            return
        self._settle(run)
        self._on_done(run, outcome)

    # In the threads of the engines ----------------------------------------------------------------------------

    def _serve(self, engine: Engine, loop: asyncio.AbstractEventLoop) -> None:
        while (run := self._runs.get()) is not None:
            outcome: BatchResult | BaseException | None = None
            run.frozen = self._frozen
            run.began_ns = time.monotonic_ns()
            try:
                if run.wanted:
                    outcome = self._execute(engine, run)
            except BaseException as error:  # noqa: BLE001 (goes to the callers)
                outcome = error
            try:
                loop.call_soon_threadsafe(self._done, run, outcome)
            except RuntimeError:  # the loop is closed, and nobody waits
                return
            del run, outcome

    def _execute(self, engine: Engine, run: Run) -> BatchResult:
        if run.lease is None:
            self._join(run)
        lease = run.lease
        assert lease is not None
        try:
            found = execute(engine, run.works, lease.feeds, batched=self._batched)
            if lease.blocks:
                answers = [[array.copy() if lease.shares(array) else array for array in one] for one in found.answers]
            else:
                answers = found.answers
        finally:
            self._memory.give_back(lease)
        times = BatchTimes(input_ns=run.join_ns, infer_ns=found.times.infer_ns, output_ns=found.times.output_ns)
        return BatchResult(answers=answers, rows=found.rows, times=times)

"""The batcher against a model of it, step by step: the order of requests, refusals, and the answer of every caller.

Nothing is left to chance: the clock is turned by hand, and an engine's answer arrives when a rule says so. The batcher
is given its clock, its threads and the queue between both, and is asked through its public names only.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from mnserve.batching.batcher import Batcher
from mnserve.batching.options import BatcherOptions
from mnserve.batching.queue_policy import QueuePolicy, QueueRules
from mnserve.batching.request_limits import RequestLimits
from mnserve.codec.decoding import InferenceWork
from mnserve.engines.fake import FakeEngine
from mnserve.errors import (
    DeadlineExceededError,
    EngineRunError,
    ModelNotReadyError,
    QueueFullError,
    QueueTimeoutError,
    StoppingError,
)
from mnserve.execution.batch import Batch
from mnserve.execution.clock import Clock
from mnserve.execution.engine_thread import EngineThread
from mnserve.execution.health_options import EngineHealthOptions
from mnserve.execution.instances import Instance
from mnserve.execution.results import InferenceResult
from mnserve.execution.state import ServingState

Array = np.ndarray[Any, Any]
POISON = -1.0
TICK = 1 / 1024
"""Step of the clock with every request: no two times are the same then, and sums of them are exact."""
HANG_SECONDS = 7 + TICK / 4
ROUNDING = 2e-6
"""More than sums of times are rounded by, and than the loop may be early."""
POLICIES = {
    1: QueuePolicy(allow_override=True),
    2: QueuePolicy(allow_override=True, max_requests=3),
    3: QueuePolicy(timeout=1.0, delay_late=True),
}
RULES = QueueRules(levels=3, default_level=2, policies=POLICIES)
REQUESTS = st.fixed_dictionaries(
    {
        "rows": st.sampled_from([1, 1, 2, 4]),
        "width": st.sampled_from([2, 2, 2, 3]),
        "level": st.sampled_from([1, 2, 3, 3]),
        "poison": st.sampled_from([False, False, False, False, True]),
        "deadline": st.sampled_from([None, None, None, 1, 2, 6]),
        "wait": st.sampled_from([0, 0, 1, 4]),
    }
)
TURNS = 30
"""Turns of the event loop after which nothing moves by itself any more."""


class HandLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock is turned by hand, and which is told of batches by hand."""

    now = 0.0
    parking: HandThread | None = None
    """Thread that runs a batch just now."""

    def __init__(self) -> None:
        super().__init__()
        self._clock_resolution = 1e-6  # of asyncio: timers due within it are due; sums of times are rounded

    def time(self) -> float:
        return self.now

    def ns(self) -> int:
        return 1 + int(self.now * 1e9)

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any, **fields: Any) -> asyncio.Handle:
        """Keeps the outcome of a batch until a rule delivers it."""
        if self.parking is None:
            return super().call_soon_threadsafe(callback, *args, **fields)
        self.parking.outcome = lambda: callback(*args)
        return asyncio.Handle(callback, args, self)

    @property
    def timers(self) -> list[asyncio.TimerHandle]:
        """Timers that are not due yet. Passing by one would look as if the process had stood still."""
        return self._scheduled  # type: ignore[attr-defined,no-any-return]


class HandThread(EngineThread):
    """In place of an engine's thread: a batch is done at once, and its outcome kept until a rule delivers it."""

    def __init__(self, loop: HandLoop) -> None:
        self.loop = loop
        self.serve: Callable[[], object] | None = None
        """Takes batches from the queue until it gets None."""
        self.outcome: Callable[[], object] | None = None
        """Tells the loop of the batch that is done."""
        self.numbers: tuple[int, ...] = ()
        """Callers whose rows are in the batch; none where it was not worth running."""
        self.ended = False
        self.lost = False
        """The batch has not ended in time."""

    @property
    def busy(self) -> bool:
        return self.outcome is not None

    def post(self, function: Callable[[], object]) -> None:
        self.serve = function

    def close(self) -> None:
        self.ended = True

    def run_one(self) -> None:
        """Runs the first batch of the queue."""
        assert self.serve is not None
        self.numbers = ()
        self.loop.parking = self
        self.serve()
        self.loop.parking = None
        if not self.numbers and self.outcome is not None:  # nobody waited for it
            self.loop.call_soon(self.outcome)
            self.outcome = None

    def run(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        x = feeds["x"]
        self.numbers = tuple(dict.fromkeys((np.abs(x[:, 0]) // 10).astype(int).tolist()))
        if (x[:, 1:2] == POISON).any():
            raise EngineRunError("poison")
        return {"y": x * 2}


class HandQueue(SimpleQueue):  # type: ignore[type-arg]
    """In place of the queue between the batcher and its engines: the first that is free takes a batch."""

    def __init__(self, threads: list[HandThread]) -> None:
        self.threads = threads
        self.batches: list[Batch] = []
        self.taken: list[Batch] = []
        """The batch that a thread takes next."""

    def put(self, item: Batch | None, block: bool = True, timeout: float | None = None) -> None:
        if item is not None:
            self.batches.append(item)
            self.bring()

    def get(self, block: bool = True, timeout: float | None = None) -> Batch | None:
        """Gives a thread one batch, and then None, so that it returns."""
        return self.taken.pop() if self.taken else None

    def get_nowait(self) -> Batch:
        if not self.batches:
            raise Empty
        return self.batches.pop(0)

    def bring(self) -> None:
        """Runs batches on the engines that are free."""
        for thread in self.threads:
            while not thread.busy and self.batches:
                self.taken.append(self.batches.pop(0))
                thread.run_one()

    def deliver(self, thread: HandThread) -> None:
        """Tells the batcher of a batch that is done; called on the loop."""
        outcome, thread.outcome = thread.outcome, None
        assert outcome is not None
        self.bring()  # an engine does not wait for the loop
        outcome()


@dataclass
class Caller:
    """One request by the model of the batcher."""

    number: int
    rows: int
    width: int
    level: int
    poison: bool
    task: asyncio.Task[InferenceResult]
    feeds: Array
    due: dict[str, float] = field(default_factory=dict)
    """Times of ``deadline``, and of ``late``, when it has waited for as long as it may."""
    place: tuple[int, bool, int] = (0, False, 0)
    """Place in the order of the queue."""
    outcome: type[BaseException] | None = None
    """Error that it has got; ``answered`` stands for a result."""
    answered: bool = False

    @property
    def done(self) -> bool:
        return self.answered or self.outcome is not None


@dataclass
class Expected:
    """A batch on an engine."""

    batch: list[Caller]
    since: float


class BatcherMachine(RuleBasedStateMachine):
    @initialize(
        count=st.sampled_from([1, 1, 2]),
        max_batch_size=st.sampled_from([4, 4, 4, 0]),
        max_queue_rows=st.sampled_from([16, 8, 4]),
        preferred=st.sampled_from([(), (2,), (1, 3), (2, 3)]),
    )
    def begin(self, count: int, max_batch_size: int, max_queue_rows: int, preferred: tuple[int, ...]) -> None:
        self.loop = HandLoop()
        self.threads = [HandThread(self.loop) for _ in range(count)]
        self.queue = HandQueue(self.threads)
        self.options = BatcherOptions(
            max_batch_size=max_batch_size,
            max_queue_rows=max_queue_rows,
            preferred_sizes=preferred if max_batch_size else (),
            queue=RULES,
        )
        self.batcher = Batcher(
            [Instance(engine=FakeEngine(function=thread.run), thread=thread) for thread in self.threads],
            name="m",
            options=self.options,
            health=EngineHealthOptions(run_timeout=HANG_SECONDS),
            clock=Clock(seconds=self.loop.time, ns=self.loop.ns),
            batches=self.queue,
        )
        self.callers: list[Caller] = []
        self.waiting: list[Caller] = []
        self.runs: list[Expected] = []
        self.singly: list[Caller] = []
        """Requests of a failed batch, each of which is run alone; they go before all others."""
        self.steps, self.state = 0, ServingState.RUNNING
        self.drained: asyncio.Task[None] | None = None
        self.call(self.batcher.start)
        self.settle()

    def call(self, function: Callable[[], object]) -> None:
        async def called() -> None:
            function()

        self.loop.run_until_complete(called())

    # What callers and operators do ------------------------------------------------------------------------------------

    @rule(requests=st.lists(REQUESTS, min_size=1, max_size=5))
    def send(self, requests: list[Mapping[str, Any]]) -> None:
        for request in requests:
            self.send_one(**request)

    def send_one(self, *, rows: int, width: int, level: int, poison: bool, deadline: int | None, wait: int) -> None:
        self.tick(TICK)
        number, rows = len(self.callers) + 1, rows if self.options.max_batch_size else 1
        feeds = 10.0 * number + np.arange(rows * width, dtype=np.float64).reshape(rows, width) / 100
        if poison:
            feeds[-1, 1] = POISON
        work = InferenceWork(feeds={"x": feeds}, rows=rows, outputs=("y",))
        until = None if deadline is None else self.loop.now + deadline + TICK / 2
        limits = RequestLimits.under(RULES, level, deadline=until, asked_wait=wait)
        task = self.loop.create_task(self.batcher.infer(work, limits))
        caller = Caller(number, rows, width, level, poison, task, feeds)
        self.callers.append(caller)
        if (refusal := self.refusal(caller)) is not None:
            caller.outcome = refusal
        else:
            caller.place = (level, False, self.step())
            if until is not None:
                caller.due["deadline"] = until
            if max_wait := POLICIES[level].max_wait(wait):
                caller.due["late"] = self.loop.now + max_wait
            self.waiting.append(caller)
        self.settle()

    @precondition(lambda self: any(not caller.done for caller in self.callers))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        caller = data.draw(st.sampled_from([caller for caller in self.callers if not caller.done]))
        caller.task.cancel()
        self.end(caller, asyncio.CancelledError)
        self.settle()

    @precondition(lambda self: self.runs)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        run = data.draw(st.sampled_from(self.runs))
        numbers = tuple(caller.number for caller in run.batch)
        self.runs.remove(run)
        failed = any(caller.poison for caller in run.batch)
        if failed and len(run.batch) > 1:
            self.singly += [caller for caller in run.batch if not caller.done and not self.broken]
        elif failed:
            self.end(run.batch[0], EngineRunError)
        else:
            for caller in run.batch:
                caller.answered = caller.answered or not caller.done
        thread = next(thread for thread in self.threads if thread.busy and thread.numbers == numbers)
        self.loop.call_soon(self.queue.deliver, thread)
        self.settle()

    @rule(seconds=st.sampled_from([0.5, 1.5, 3.0]))
    def pass_time(self, seconds: float) -> None:
        self.tick(seconds)

    @precondition(lambda self: self.drained is None and len(self.callers) > 3)
    @rule()
    def drain(self) -> None:
        if self.state is ServingState.RUNNING:
            self.state = ServingState.DRAINING
        self.drained = self.loop.create_task(self.batcher.drain())
        self.settle()

    @precondition(lambda self: self.drained is not None)
    @rule()
    def abort(self) -> None:
        self.call(self.batcher.abort)
        if not self.broken:
            self.state = ServingState.STOPPED
        for caller in self.callers:
            self.end(caller, StoppingError)
        self.runs.clear()
        self.singly.clear()
        for thread in self.threads:
            thread.lost = thread.lost or thread.busy
        self.settle()

    # The model --------------------------------------------------------------------------------------------------------

    @property
    def broken(self) -> bool:
        return self.state is ServingState.BROKEN

    @property
    def engines_left(self) -> int:
        return sum(not thread.lost for thread in self.threads)

    def step(self) -> int:
        self.steps += 1
        return self.steps

    def refusal(self, caller: Caller) -> type[BaseException] | None:
        max_requests = POLICIES[caller.level].max_requests
        same_level = sum(other.level == caller.level for other in self.waiting)
        if self.broken:
            return ModelNotReadyError
        if self.state is not ServingState.RUNNING:
            return StoppingError
        full = sum(other.rows for other in self.waiting) + caller.rows > self.options.max_queue_rows
        return QueueFullError if full or (max_requests and same_level >= max_requests) else None

    def end(self, caller: Caller, outcome: type[BaseException]) -> None:
        if not caller.done:
            caller.outcome = outcome
        if caller in self.waiting:
            self.waiting.remove(caller)

    def tick(self, seconds: float) -> None:
        """Lets time pass, and everything that it brings about happen in its turn."""
        end = self.loop.now + seconds
        while (due := min(self.due(), key=lambda event: event[0]))[0] <= end:
            self.loop.now, what, caller = due
            if caller is not None:
                self.come(what, caller)
            self.settle()
        self.loop.now = end
        self.settle()

    def due(self) -> list[tuple[float, str, Caller | None]]:
        """Lists events of the clock with their times; timers of the batcher come after what they bring about."""
        due: list[tuple[float, str, Caller | None]] = [(math.inf, "never", None)]
        due += [(when, what, caller) for caller in self.callers for what, when in caller.due.items()]
        due += [(run.since + HANG_SECONDS, "hang", run.batch[0]) for run in self.runs]
        timers = [timer for timer in self.loop.timers if not timer.cancelled()]
        return due + [(max(timer.when() + ROUNDING, self.loop.now), "timer", None) for timer in timers]

    def come(self, what: str, caller: Caller) -> None:
        """Does what the clock brings about."""
        caller.due.pop(what, None)
        if what == "hang":
            self.state = ServingState.BROKEN
            (since,) = (run.since for run in self.runs if run.batch[0] is caller)
            hung = [run for run in self.runs if run.since == since]  # one check finds all that began together
            self.runs = [run for run in self.runs if run not in hung]
            numbers = {tuple(member.number for member in run.batch) for run in hung}
            for thread in self.threads:
                thread.lost = thread.lost or (thread.busy and thread.numbers in numbers)
            self.singly.clear()
            for other in self.callers:
                self.end(other, ModelNotReadyError)
        elif caller.done:
            pass
        elif what == "deadline":
            self.end(caller, DeadlineExceededError)
        elif caller in self.waiting and POLICIES[caller.level].delay_late:
            caller.place = (caller.level, True, self.step())
        elif caller in self.waiting:
            self.end(caller, QueueTimeoutError)

    def take(self) -> list[Caller]:
        """Takes the batch that an idle engine runs next."""
        order = sorted(self.waiting, key=lambda caller: caller.place)
        max_rows = self.options.max_batch_size
        order = [caller for caller in order if caller.width == order[0].width or not max_rows]
        sums = np.cumsum([caller.rows for caller in order]).tolist()
        preferred = [size for size in sums if size in self.options.preferred_sizes]
        limit = max(preferred, default=max_rows)
        batch = [caller for caller, rows in zip(order, sums, strict=True) if rows <= limit] or order[:1]
        self.waiting = [caller for caller in self.waiting if caller not in batch]
        return batch

    def settle(self) -> None:
        """Lets the batcher and its model come to rest, and compares them."""

        async def turn() -> None:
            for _ in range(TURNS):
                await asyncio.sleep(0)

        self.loop.run_until_complete(turn())
        self.singly = [caller for caller in self.singly if not caller.done]
        while (self.singly or self.waiting) and len(self.runs) < self.engines_left and not self.broken:
            batch = [self.singly.pop(0)] if self.singly else self.take()
            self.runs.append(Expected(batch, self.loop.now))
        if self.state is ServingState.DRAINING and not self.waiting and not self.runs:
            self.state = ServingState.STOPPED
        self.compare()

    def compare(self) -> None:
        assert self.batcher.state is self.state
        running = sorted(thread.numbers for thread in self.threads if thread.busy and not thread.lost)
        expected = sorted(tuple(caller.number for caller in run.batch) for run in self.runs)
        assert running == expected, (running, expected)
        rows = sum(caller.rows for caller in self.waiting)
        assert (self.batcher.waiting_requests, self.batcher.waiting_rows) == (len(self.waiting), rows)
        assert self.batcher.waiting_bytes == sum(caller.feeds.nbytes for caller in self.waiting)
        assert self.batcher.idle == (not self.waiting and not self.runs)
        for caller in self.callers:
            assert caller.task.done() == caller.done, caller
            if caller.answered:
                np.testing.assert_array_equal(caller.task.result().arrays[0], caller.feeds * 2)
            elif caller.outcome is asyncio.CancelledError:
                assert caller.task.cancelled()
            elif caller.outcome is not None:
                assert type(caller.task.exception()) is caller.outcome
        if self.drained is not None:
            assert self.drained.done() == (not self.waiting and not self.runs)
            assert not self.drained.done() or all(thread.ended for thread in self.threads)

    def teardown(self) -> None:
        """Stops the batcher in any state: it ends, and no caller is left without an answer."""
        if not hasattr(self, "loop"):
            return
        self.call(self.batcher.refuse)
        for _ in range(5000):
            if all(caller.task.done() for caller in self.callers) and self.batcher.idle:
                break
            for thread in self.threads:
                if thread.busy:
                    self.loop.call_soon(self.queue.deliver, thread)
                    self.loop.run_until_complete(asyncio.sleep(0))
            self.loop.run_until_complete(asyncio.sleep(0))
        for caller in self.callers:
            if caller.task.done() and not caller.task.cancelled():
                caller.task.exception()  # asyncio logs those that were never looked at
        left = [caller for caller in self.callers if not caller.task.done()]
        idle, waiting = self.batcher.idle, self.batcher.waiting_requests
        self.call(self.batcher.abort)
        self.loop.run_until_complete(self.batcher.drain())
        assert self.batcher.state in (ServingState.BROKEN, ServingState.STOPPED)
        self.loop.close()
        assert not left, left
        assert idle, (waiting, self.queue.batches, [thread.numbers for thread in self.threads if thread.busy])


TestBatcherMachine = BatcherMachine.TestCase
TestBatcherMachine.settings = settings(
    max_examples=120, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)

"""The batcher against a model of it, step by step: whose turn it is, who is refused, and what every caller gets.

Nothing is left to chance: the clock of the loop is turned by hand, and an engine's answer arrives when a rule says so.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from mnserve.batching.batcher import Batcher, InferenceResult
from mnserve.batching.options import BatcherOptions
from mnserve.batching.queue_policy import QueuePolicy, QueueRules
from mnserve.engines.fake import FakeEngine
from mnserve.errors import (
    DeadlineExceededError,
    EngineRunError,
    ModelNotReadyError,
    QueueFullError,
    QueueTimeoutError,
    StoppingError,
)
from mnserve.execution import instances
from mnserve.execution.batch import BatchResult, InferenceWork
from mnserve.execution.engine_thread import EngineThread
from mnserve.execution.health_options import EngineHealthOptions
from mnserve.execution.instances import Instance, Instances, Run

Array = np.ndarray[Any, Any]
POISON = -1.0
TICK = 1 / 1024
"""What the clock goes on with every request: no two times are the same then, and sums of them are exact."""
HANG_SECONDS = 7 + TICK / 4
ROUNDING = 2e-6
"""More than sums of times are rounded by, and than the loop may be early."""
POLICIES = {
    1: QueuePolicy(allow_override=True),
    2: QueuePolicy(allow_override=True, max_requests=3),
    3: QueuePolicy(timeout=1.0, delay_late=True),
}
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
    """An event loop whose clock is turned by hand."""

    now = 0.0

    def __init__(self) -> None:
        super().__init__()
        self._clock_resolution = 1e-6  # of asyncio: what is due within it is due; sums of times are rounded

    def time(self) -> float:
        return self.now

    @property
    def timers(self) -> list[asyncio.TimerHandle]:
        """What waits for its time. Passing by one would look as if the process had stood still."""
        return self._scheduled  # type: ignore[attr-defined,no-any-return]


class HandThread(EngineThread):
    """In place of an engine's thread: a run is done at once, and its outcome kept until somebody asks for it."""

    def __init__(self) -> None:
        self.pending: tuple[Run, BatchResult | BaseException | None] | None = None
        self.numbers: tuple[int, ...] = ()
        """Callers whose rows are in the run."""
        self.ended = False
        self.lost = False
        """Whether its run has not ended in time."""

    def post(self, function: Callable[[], object]) -> None:
        """What takes runs from the queue; they are brought by hand."""

    def close(self) -> None:
        self.ended = True

    def run(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        x = feeds["x"]
        self.numbers = tuple(dict.fromkeys((np.abs(x[:, 0]) // 10).astype(int).tolist()))
        if (x[:, 1:2] == POISON).any():
            raise EngineRunError("poison")
        return {"y": x * 2}


class HandQueue(SimpleQueue):  # type: ignore[type-arg]
    """In place of the queue between the batcher and its engines: the first that is free takes a run."""

    def __init__(self, instances: Instances) -> None:
        self.instances = instances
        self.waiting: list[Run] = []

    def put(self, run: Run | None, block: bool = True, timeout: float | None = None) -> None:
        if run is not None:
            self.waiting.append(run)
            self.bring()

    def get_nowait(self) -> Run:
        if not self.waiting:
            raise Empty
        return self.waiting.pop(0)

    def bring(self) -> None:
        """Runs on the engines that are free."""
        for instance in self.instances._instances:
            thread = instance.thread
            assert isinstance(thread, HandThread)
            while thread.pending is None and self.waiting:
                run = self.waiting.pop(0)
                loop = asyncio.get_running_loop()
                run.began_ns = 1 + int(loop.time() * 1e9)
                if not run.wanted:
                    loop.call_soon(self.instances._done, run, None)
                    continue
                try:
                    outcome: BatchResult | BaseException | None = self.instances._execute(instance.engine, run)
                except EngineRunError as error:
                    outcome = error
                thread.pending = (run, outcome)

    def deliver(self, thread: HandThread) -> None:
        """Tells how a run has gone; called on the loop."""
        assert thread.pending is not None
        (run, outcome), thread.pending = thread.pending, None
        self.bring()  # an engine does not wait for the loop
        self.instances._done(run, outcome)


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
    """``deadline``, and ``late``: when its time in the queue is over."""
    turn: tuple[int, bool, int] = (0, False, 0)
    """Where it stands in the line."""
    outcome: type[BaseException] | None = None
    """What it has got; Answer's place is taken by ``answered``."""
    answered: bool = False

    @property
    def done(self) -> bool:
        return self.answered or self.outcome is not None


@dataclass
class Expected:
    """A batch on some engine."""

    batch: list[Caller]
    since: float


class BatcherMachine(RuleBasedStateMachine):
    @initialize(
        count=st.sampled_from([1, 1, 2]),
        most=st.sampled_from([4, 4, 4, 0]),
        room=st.sampled_from([16, 8, 4]),
        preferred=st.sampled_from([(), (2,), (1, 3), (2, 3)]),
    )
    def begin(self, count: int, most: int, room: int, preferred: tuple[int, ...]) -> None:
        self.loop, self.executors = HandLoop(), [HandThread() for _ in range(count)]
        self.options = BatcherOptions(
            max_batch_size=most,
            max_queue_rows=room,
            preferred_sizes=preferred if most else (),
            queue=QueueRules(levels=3, default_level=2, policies=POLICIES),
        )
        engines = [Instance(engine=FakeEngine(function=item.run), thread=item) for item in self.executors]
        watch = EngineHealthOptions(run_timeout=HANG_SECONDS)
        self.batcher = Batcher(engines, name="m", options=self.options, watch=watch)
        self.callers: list[Caller] = []
        self.waiting: list[Caller] = []
        self.runs: list[Expected] = []
        self.singly: list[Caller] = []
        """Those whose batch failed, each of which is run alone; they go before all others."""
        self.steps, self.stopping, self.dead = 0, False, False
        self.real_time = instances.time
        instances.time = SimpleNamespace(  # type: ignore[assignment]
            monotonic_ns=lambda: int(self.loop.now * 1e9), perf_counter_ns=time.perf_counter_ns
        )
        self.drained: asyncio.Task[None] | None = None

        self.queue = self.batcher._engines._runs = HandQueue(self.batcher._engines)

        async def start() -> None:
            self.batcher.start()

        self.loop.run_until_complete(start())
        self.settle()

    def call(self, function: Callable[[], object]) -> None:
        async def called() -> None:
            function()

        self.loop.run_until_complete(called())

    # What callers and operators do ------------------------------------------------------------------------------------

    @rule(wanted=st.lists(REQUESTS, min_size=1, max_size=5))
    def send(self, wanted: list[Mapping[str, Any]]) -> None:
        for one in wanted:
            self.send_one(**one)

    def send_one(self, *, rows: int, width: int, level: int, poison: bool, deadline: int | None, wait: int) -> None:
        self.tick(TICK)
        number, rows = len(self.callers) + 1, rows if self.options.max_batch_size else 1
        feeds = 10.0 * number + np.arange(rows * width, dtype=np.float64).reshape(rows, width) / 100
        if poison:
            feeds[-1, 1] = POISON
        work = InferenceWork(feeds={"x": feeds}, rows=rows, outputs=("y",))
        until = None if deadline is None else self.loop.now + deadline + TICK / 2
        task = self.loop.create_task(self.batcher.infer(work, deadline=until, level=level, wait=wait))
        caller = Caller(number, rows, width, level, poison, task, feeds)
        self.callers.append(caller)
        if (refusal := self.refusal(caller)) is not None:
            caller.outcome = refusal
        else:
            caller.turn = (level, False, self.step())
            if until is not None:
                caller.due["deadline"] = until
            if longest := POLICIES[level].longest_wait(wait):
                caller.due["late"] = self.loop.now + longest
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
            self.singly += [caller for caller in run.batch if not caller.done and not self.dead]
        elif failed:
            self.end(run.batch[0], EngineRunError)
        else:
            for caller in run.batch:
                caller.answered = caller.answered or not caller.done
        thread = next(item for item in self.executors if item.pending and item.numbers == numbers)
        self.loop.call_soon(self.queue.deliver, thread)
        self.settle()

    @rule(seconds=st.sampled_from([0.5, 1.5, 3.0]))
    def pass_time(self, seconds: float) -> None:
        self.tick(seconds)

    @precondition(lambda self: not self.stopping and len(self.callers) > 3)
    @rule()
    def drain(self) -> None:
        self.stopping = True
        self.drained = self.loop.create_task(self.batcher.drain())
        self.settle()

    @precondition(lambda self: self.stopping)
    @rule()
    def abort(self) -> None:
        self.call(self.batcher.abort)
        for caller in self.callers:
            self.end(caller, StoppingError)
        self.runs.clear()
        self.singly.clear()
        for thread in self.executors:
            thread.lost = thread.lost or thread.pending is not None
        self.settle()

    # The model --------------------------------------------------------------------------------------------------------

    @property
    def engines_left(self) -> int:
        return sum(not thread.lost for thread in self.executors)

    def step(self) -> int:
        self.steps += 1
        return self.steps

    def refusal(self, caller: Caller) -> type[BaseException] | None:
        most = POLICIES[caller.level].max_requests
        same = sum(other.level == caller.level for other in self.waiting)
        if self.dead:
            return ModelNotReadyError
        if self.stopping:
            return StoppingError
        full = sum(other.rows for other in self.waiting) + caller.rows > self.options.max_queue_rows
        return QueueFullError if full or (most and same >= most) else None

    def end(self, caller: Caller, outcome: type[BaseException]) -> None:
        if not caller.done:
            caller.outcome = outcome
        if caller in self.waiting:
            self.waiting.remove(caller)

    def tick(self, seconds: float) -> None:
        """Lets time pass, and everything that it brings about happen in its turn."""
        end = self.loop.now + seconds
        while (due := min(self.due(), key=lambda item: item[0]))[0] <= end:
            self.loop.now, what, caller = due
            if caller is not None:
                self.come(what, caller)
            self.settle()
        self.loop.now = end
        self.settle()

    def due(self) -> list[tuple[float, str, Caller | None]]:
        """What the clock will bring about, and when; timers of the batcher's own come after what they bring about."""
        due: list[tuple[float, str, Caller | None]] = [(math.inf, "never", None)]
        due += [(when, what, caller) for caller in self.callers for what, when in caller.due.items()]
        due += [(run.since + HANG_SECONDS, "hang", run.batch[0]) for run in self.runs]
        timers = [timer for timer in self.loop.timers if not timer.cancelled()]
        return due + [(max(timer.when() + ROUNDING, self.loop.now), "timer", None) for timer in timers]

    def come(self, what: str, caller: Caller) -> None:
        """What happens by the clock."""
        caller.due.pop(what, None)
        if what == "hang":
            self.dead = True
            (hung,) = (run for run in self.runs if run.batch[0] is caller)
            self.runs.remove(hung)
            numbers = tuple(one.number for one in hung.batch)
            for thread in self.executors:
                thread.lost = thread.lost or (thread.pending is not None and thread.numbers == numbers)
            self.singly.clear()
            for other in self.callers:
                self.end(other, ModelNotReadyError)
        elif caller.done:
            pass
        elif what == "deadline":
            self.end(caller, DeadlineExceededError)
        elif caller in self.waiting and POLICIES[caller.level].delay_late:
            caller.turn = (caller.level, True, self.step())
        elif caller in self.waiting:
            self.end(caller, QueueTimeoutError)

    def take(self) -> list[Caller]:
        """The batch that an idle engine runs next."""
        line = sorted(self.waiting, key=lambda caller: caller.turn)
        most = self.options.max_batch_size
        line = [caller for caller in line if caller.width == line[0].width or not most]
        sums = np.cumsum([caller.rows for caller in line]).tolist()
        preferred = [size for size in sums if size in self.options.preferred_sizes]
        limit = max(preferred, default=most)
        batch = [caller for caller, rows in zip(line, sums, strict=True) if rows <= limit] or line[:1]
        self.waiting = [caller for caller in self.waiting if caller not in batch]
        return batch

    def settle(self) -> None:
        """Lets the batcher and its model come to rest, and compares them."""

        async def turn() -> None:
            for _ in range(TURNS):
                await asyncio.sleep(0)

        self.loop.run_until_complete(turn())
        self.singly = [caller for caller in self.singly if not caller.done]
        while (self.singly or self.waiting) and len(self.runs) < self.engines_left and not self.dead:
            batch = [self.singly.pop(0)] if self.singly else self.take()
            self.runs.append(Expected(batch, self.loop.now))
        self.compare()

    def compare(self) -> None:
        found = sorted(item.numbers for item in self.executors if item.pending and not item.lost)
        expected = sorted(tuple(caller.number for caller in run.batch) for run in self.runs)
        assert found == expected, (found, expected)
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
            assert not self.drained.done() or all(item.ended for item in self.executors)

    def teardown(self) -> None:
        """Whatever has happened: who is stopped ends, and nobody is left without an answer."""
        if not hasattr(self, "loop"):
            return
        self.call(self.batcher.refuse)
        for _ in range(5000):
            if all(caller.task.done() for caller in self.callers) and self.batcher.idle:
                break
            for item in self.executors:
                if item.pending:
                    self.loop.call_soon(self.queue.deliver, item)
                    self.loop.run_until_complete(asyncio.sleep(0))
            self.loop.run_until_complete(asyncio.sleep(0))
        for caller in self.callers:
            if caller.task.done() and not caller.task.cancelled():
                caller.task.exception()  # asyncio logs those that nobody looked at
        ended = all(caller.task.done() for caller in self.callers) and self.batcher.idle
        self.call(self.batcher.abort)
        self.loop.run_until_complete(self.batcher.drain())
        self.loop.close()
        instances.time = self.real_time
        assert ended, (
            self.batcher._running,
            [c for c in self.callers if not c.task.done()],
            self.batcher._waiting._requests,
            self.queue.waiting,
            [t.pending for t in self.executors],
            self.batcher._engines.outstanding,
            len(self.batcher._waiting._by_priority),
        )


TestBatcherMachine = BatcherMachine.TestCase
TestBatcherMachine.settings = settings(
    max_examples=120, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)

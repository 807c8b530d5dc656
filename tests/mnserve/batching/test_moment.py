"""The moment that an idle engine waits, by a clock that is turned by hand: when it is granted, and what ends it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import numpy as np
import pytest

from mnserve.batching.batcher import Batcher
from mnserve.batching.moment import DRY_GAPS, MAX_NS, WaitingMoment
from mnserve.batching.options import BatcherOptions
from mnserve.batching.request_limits import RequestLimits
from mnserve.batching.request_queue import RequestQueue
from mnserve.codec.decoding import InferenceWork
from mnserve.engines.fake import FakeEngine
from mnserve.execution.batch import Batch
from mnserve.execution.clock import Clock
from mnserve.execution.engine_thread import EngineThread
from mnserve.execution.instances import Instance
from mnserve.execution.results import InferenceResult

US, MS = 1_000, 1_000_000
GAP = 100 * US
MAX_ROWS = 16


def work(value: float = 0, width: int = 2, rows: int = 1) -> InferenceWork:
    return InferenceWork(feeds={"x": np.full((rows, width), value, np.float32)}, rows=rows, outputs=("y",))


class Callers:
    """A queue whose callers come and are answered by hand, with a gap of 100 us between them."""

    def __init__(self) -> None:
        self.now = MS
        options = BatcherOptions(max_batch_size=MAX_ROWS, max_queue_rows=1000)
        self.queue = RequestQueue(options, name="m", clock=Clock(ns=lambda: self.now))
        self.moment = WaitingMoment(self.queue)

    def come(self, count: int = 1, *, gap: int = GAP) -> None:
        for _ in range(count):
            self.now += gap
            self.queue.add(work(), asyncio.Future())

    def run(self, run_ns: int = 20 * US) -> int:
        """Runs and answers all that wait; returns how many those are."""
        requests = self.queue.take_batch()
        self.moment.on_answered(Batch(requests, [request.work for request in requests]), run_ns)
        return len(requests)

    def learn(self, count: int = 4, run_ns: int = 20 * US) -> None:
        """So many callers come and are answered together, until the gap between them is known."""
        for _ in range(20):
            self.come(count)
            assert self.run(run_ns) == count

    @property
    def remaining(self) -> int:
        """Nanoseconds that the engine waits still."""
        return round(self.moment.remaining() * 1e9)


@pytest.fixture
async def callers() -> Callers:
    return Callers()


async def test_a_caller_alone_never_waits(callers: Callers) -> None:
    for pause in (0, GAP, MS, 1000 * MS) * 3:
        callers.now += pause
        callers.come()
        assert callers.remaining == 0
        callers.run()


async def test_those_who_were_answered_together_are_waited_for(callers: Callers) -> None:
    callers.learn(4)
    for number in range(1, 4):
        callers.come()
        assert callers.remaining > 0
        assert callers.moment.enough_at == callers.queue.arrivals + 4 - number
    callers.come()
    assert callers.remaining == 0
    assert callers.run() == 4


async def test_a_run_that_takes_a_third_of_what_the_others_need_to_come_begins(callers: Callers) -> None:
    """A row costs a third of what it takes to come, so half of those who were answered have to wait."""
    callers.learn(8, (8 * GAP + 40 * US) // 3)
    for number in range(1, 5):
        callers.come()
        assert (callers.remaining > 0) is (number < 4)
    callers = Callers()
    callers.learn(8, 64 * GAP)
    callers.come()
    assert callers.remaining == 0  # the run of one takes longer than the other seven


async def test_rows_count_for_the_run_and_requests_for_those_who_come(callers: Callers) -> None:
    callers.learn(4, (4 * GAP + 40 * US) // 3)
    callers.now += GAP
    callers.queue.add(work(rows=3), asyncio.Future())
    assert callers.remaining == 0  # three rows are worth three callers


async def test_a_stream_that_dries_up_ends_the_moment_and_nobody_else_is_expected(callers: Callers) -> None:
    callers.learn(4)
    callers.come(2)
    assert callers.remaining == pytest.approx(DRY_GAPS * GAP, rel=0.02)
    callers.now += (DRY_GAPS - 1) * GAP
    assert callers.remaining == pytest.approx(GAP, rel=0.1)
    callers.come()
    callers.now += 2 * GAP
    assert callers.remaining == pytest.approx((DRY_GAPS - 2) * GAP, rel=0.02)
    callers.now += (DRY_GAPS - 2) * GAP + 10 * US
    assert callers.remaining == 0
    assert callers.run() == 3
    callers.come(3)
    assert callers.remaining == 0  # the three are back, and the fourth is forgotten


async def test_a_loop_that_was_late_has_not_seen_who_came(callers: Callers) -> None:
    callers.learn(4)
    callers.come(2)
    due = callers.remaining
    callers.now += due + 2 * MS  # less than the longest moment
    assert callers.remaining == pytest.approx(DRY_GAPS * GAP, rel=0.02)
    callers.now += callers.remaining + US
    assert callers.remaining == 0


async def test_a_moment_has_an_end_and_then_fewer_are_expected(callers: Callers) -> None:
    for _ in range(20):
        callers.come(14, gap=900 * US)
        callers.run()
    asked: list[int] = []
    while len(callers.queue) < 14 and (not asked or asked[-1]):
        callers.come(gap=900 * US)
        asked.append(callers.remaining)
    assert asked[-1] == 0
    assert len(asked) == 2 + MAX_NS // (900 * US)
    expected = 14 - len(asked)
    callers.run()
    callers.come()
    callers.moment.remaining()
    assert callers.moment.enough_at - callers.queue.arrivals < expected + len(asked) - 1


async def test_after_a_while_nobody_is_on_the_way_any_more(callers: Callers) -> None:
    callers.learn(4)
    callers.come()
    assert callers.remaining > 0
    callers = Callers()
    callers.learn(4)
    callers.now += MAX_NS + 8 * GAP + MS
    callers.come()
    assert callers.remaining == 0
    callers.run()
    callers.come()
    assert callers.remaining == 0
    callers = Callers()
    callers.learn(4)
    callers.now += 100 * MS
    callers.come(2)
    callers.run()  # the engine was not idle, so that nobody asked for a moment
    callers.come(2)
    assert callers.remaining == 0


async def test_where_requests_are_not_joined_nobody_waits(callers: Callers) -> None:
    """Each has a shape of its own, so that many are on the way and none shares a run."""
    callers.learn(4)
    for width in range(3, 11):
        callers.queue.add(work(width=width), asyncio.Future())
        callers.now += GAP // 10
    while callers.queue:
        assert callers.run() == 1
    callers.come()
    assert callers.remaining == 0


async def test_pauses_do_not_count_as_gaps_and_a_slow_run_counts_little(callers: Callers) -> None:
    callers.learn(4)
    callers.now += 60_000 * MS
    callers.come(4)
    callers.run(50 * MS)  # the machine was busy
    callers.come()
    assert 0 < callers.remaining <= MAX_NS
    callers.run()
    callers.come(2)
    assert callers.remaining == pytest.approx(DRY_GAPS * GAP, rel=0.3)


# The batcher waits for it ---------------------------------------------------------------------------------------------


class Waiting:
    """A batcher whose callers are known; its clock stands still, so that no moment ends by itself."""

    def __init__(self, max_delay: float | None, instances: int = 1) -> None:
        self.now = MS
        self.gate = threading.Event()
        self.engines = [FakeEngine(gate=self.gate) for _ in range(instances)]
        options = BatcherOptions(max_batch_size=MAX_ROWS, max_queue_rows=1000, max_delay=max_delay)
        engines = [Instance(engine=engine, thread=EngineThread("m")) for engine in self.engines]
        clock = Clock(ns=lambda: self.now) if max_delay is None else Clock()
        self.batcher = Batcher(engines, name="m", options=options, clock=clock)
        self.batcher.start()

    def ask(self, value: float = 0, *, rows: int = 1, deadline: float | None = None, max_wait: float = 0.0) -> Asked:
        limits = RequestLimits(deadline=deadline, max_wait=max_wait)
        return asyncio.ensure_future(self.batcher.infer(work(value, rows=rows), limits))

    async def begin(self) -> None:
        """Runs one request on each engine, and then full batches until it is known how short a run is."""
        tasks = []
        for count in range(1, len(self.engines) + 1):
            tasks.append(self.ask())
            await until(lambda count=count: sum(engine.started.is_set() for engine in self.engines) == count)  # type: ignore[misc]
        tasks += [self.ask() for _ in range(MAX_ROWS)]
        await until(lambda: self.batcher.waiting_requests == MAX_ROWS)
        self.gate.set()
        await asyncio.gather(*tasks)
        for _ in range(4):
            await asyncio.gather(*(self.ask() for _ in range(MAX_ROWS)))
        for engine in self.engines:
            engine.calls.clear()

    def batches(self) -> list[int]:
        return sorted(len(call["x"]) for engine in self.engines for call in engine.calls)


Asked = asyncio.Future[InferenceResult]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


@pytest.fixture(params=[1, 2], ids=["1 instance", "2 instances"])
async def waiting(request: pytest.FixtureRequest) -> Waiting:
    made = Waiting(None, request.param)
    await made.begin()
    return made


async def test_callers_who_come_back_share_a_run() -> None:
    waiting = Waiting(None)
    await waiting.begin()
    waiting.now += 100 * MS  # nobody is expected any more
    waiting.gate.clear()
    first = waiting.ask(0)
    await until(lambda: waiting.batches() == [1])
    others = [waiting.ask(value) for value in (1, 2, 3)]
    await until(lambda: waiting.batcher.waiting_requests == 3)
    waiting.gate.set()
    await first
    await asyncio.sleep(0.005)
    assert waiting.batcher.waiting_requests == 3  # the first may come back
    answers = await asyncio.gather(*others, waiting.ask(4))
    assert [answer.arrays[0][0, 0] for answer in answers] == [2, 4, 6, 8]
    assert waiting.batches() == [1, 4]
    await waiting.batcher.drain()


async def test_who_leaves_meanwhile_is_not_run(waiting: Waiting) -> None:
    leaving, staying = waiting.ask(1), waiting.ask(2)
    await asyncio.sleep(0.005)
    assert waiting.batcher.waiting_requests == 2
    leaving.cancel()
    await until(leaving.done)
    await waiting.batcher.drain()
    await staying
    assert waiting.batches() == [1]


async def test_a_drain_ends_the_moment(waiting: Waiting) -> None:
    task = waiting.ask(1)
    await asyncio.sleep(0.005)
    assert not task.done()
    await waiting.batcher.drain()
    assert waiting.batches() == [1]
    await task


async def test_a_request_that_would_be_late_ends_the_moment(waiting: Waiting) -> None:
    loop = asyncio.get_running_loop()
    patient = waiting.ask(1, deadline=loop.time() + 600)
    await asyncio.sleep(0.005)
    assert not patient.done()
    async with asyncio.timeout(20):
        while not patient.done():  # a busy machine may miss a deadline so near
            await asyncio.gather(waiting.ask(2, deadline=loop.time() + 0.05), return_exceptions=True)
    assert waiting.batches() == [2]
    await waiting.batcher.drain()


async def test_a_request_that_may_not_wait_long_ends_the_moment(waiting: Waiting) -> None:
    patient = waiting.ask(1, max_wait=600)
    await asyncio.sleep(0.005)
    assert not patient.done()
    await waiting.ask(2, max_wait=0.0001)
    await patient
    await waiting.batcher.drain()


async def test_a_full_batch_ends_the_moment(waiting: Waiting) -> None:
    await asyncio.gather(waiting.ask(1), waiting.ask(2, rows=MAX_ROWS - 1))
    assert waiting.batches() == [MAX_ROWS]
    await waiting.batcher.drain()


@pytest.mark.parametrize("max_delay", [0.0, 1e-6])
async def test_a_delay_that_was_asked_for_takes_the_place_of_the_moment(max_delay: float) -> None:
    waiting = Waiting(max_delay)
    await waiting.begin()
    await waiting.ask(1)
    assert waiting.batches() == [1]
    await waiting.batcher.drain()

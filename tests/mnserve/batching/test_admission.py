"""Requests that are admitted without a task: their replies, their withdrawal, and what is left of them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from mnserve.batching.batcher import Batcher
from mnserve.batching.options import BatcherOptions
from mnserve.batching.request_limits import RequestLimits
from mnserve.codec.decoding import InferenceWork
from mnserve.engines.fake import FakeEngine
from mnserve.errors import DeadlineExceededError, EngineRunError, QueueFullError, QueueTimeoutError, StoppingError
from mnserve.execution.engine_thread import EngineThread
from mnserve.execution.instances import Instance
from mnserve.execution.request import WaitingRequest
from mnserve.execution.results import InferenceResult


class Noted:
    """A reply that notes its outcome."""

    def __init__(self) -> None:
        self.outcomes: list[InferenceResult | BaseException] = []

    def done(self) -> bool:
        return bool(self.outcomes)

    def set_result(self, result: InferenceResult, /) -> None:
        self.outcomes.append(result)

    def set_exception(self, exception: BaseException, /) -> None:
        self.outcomes.append(exception)


class Held:
    """A batcher of up to four rows whose engine is held by a gate."""

    def __init__(self, max_queue_rows: int = 8) -> None:
        self.gate = threading.Event()
        self.engine = FakeEngine(gate=self.gate)
        options = BatcherOptions(max_batch_size=4, max_queue_rows=max_queue_rows)
        instances = [Instance(engine=self.engine, thread=EngineThread("m"))]
        self.batcher = Batcher(instances, name="m", options=options)
        self.unread: list[int] = []

    def admit(self, value: float, **limits: float) -> tuple[WaitingRequest, Noted]:
        reply = Noted()
        work = InferenceWork(feeds={"x": np.full((1, 2), value, np.float32)}, rows=1, outputs=("y",))
        request = self.batcher.admit(work, RequestLimits(**limits), reply)  # type: ignore[arg-type]
        request.on_unread = lambda: self.unread.append(request.number)
        return request, reply

    async def begin(self) -> tuple[WaitingRequest, Noted]:
        """Starts, and sends a request that the engine is held with."""
        self.batcher.start()
        admitted = self.admit(0)
        await until(self.engine.started.is_set)
        return admitted

    def batches(self) -> list[list[float]]:
        return [call["x"][:, 0].tolist() for call in self.engine.calls]


@pytest.fixture
def held() -> Iterator[Held]:
    made = Held()
    yield made
    made.gate.set()
    made.batcher.abort()  # ends the thread


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


def value(reply: Noted) -> float:
    (result,) = reply.outcomes
    assert isinstance(result, InferenceResult), result
    return float(result.arrays[0][0, 0])


async def test_replies_get_their_own_rows_and_no_task_is_made(held: Held) -> None:
    tasks = asyncio.all_tasks()
    admitted = [await held.begin()] + [held.admit(number) for number in range(1, 4)]
    assert asyncio.all_tasks() == tasks
    held.gate.set()
    await held.batcher.drain()
    assert [value(reply) for _, reply in admitted] == [0, 2, 4, 6]
    assert held.batches() == [[0], [1, 2, 3]]
    assert not any(request.in_batch for request, _ in admitted)
    assert held.unread == []


async def test_refusals_are_raised_and_leave_nothing_behind() -> None:
    held = Held(max_queue_rows=4)
    with pytest.raises(DeadlineExceededError):
        held.admit(1, deadline=0.5)
    for number in range(4):
        held.admit(number)
    with pytest.raises(QueueFullError):
        held.admit(4)
    held.batcher.abort()
    with pytest.raises(StoppingError):
        held.admit(5)
    assert held.batcher.waiting_requests == 0


async def test_a_request_withdrawn_from_the_queue_is_not_run_and_hears_nothing(held: Held) -> None:
    await held.begin()
    request, reply = held.admit(1, deadline=asyncio.get_running_loop().time() + 60, max_wait=60)
    timers = list(request.timers)
    assert len(timers) == 2
    held.batcher.withdraw(request)
    held.batcher.withdraw(request)
    assert all(timer.cancelled() for timer in timers)
    assert held.batcher.waiting_requests == 0
    assert not request.in_batch
    held.gate.set()
    await held.batcher.drain()
    assert (held.batches(), reply.outcomes, held.unread) == ([[0]], [], [])


async def test_a_withdrawal_makes_room_for_a_request_that_waits_for_it(held: Held) -> None:
    await held.begin()
    waiting = [held.admit(number)[0] for number in range(1, 9)]
    work = InferenceWork(feeds={"x": np.full((1, 2), 9, np.float32)}, rows=1, outputs=("y",))
    later = asyncio.create_task(held.batcher.infer(work, None, lambda nbytes: None))
    await asyncio.sleep(0.01)
    assert held.batcher.waiting_requests == 8
    held.batcher.withdraw(waiting[-1])  # those before it are prepared, and count until they run
    held.gate.set()
    assert (await later).arrays[0].tolist() == [[18, 18]]
    await held.batcher.drain()


async def test_tensors_of_a_request_withdrawn_from_a_run_are_read_until_it_ends(held: Held) -> None:
    request, reply = await held.begin()
    held.batcher.withdraw(request)
    assert request.in_batch
    assert held.unread == []
    held.gate.set()
    await until(lambda: held.unread == [request.number])
    await held.batcher.drain()
    assert reply.outcomes == []
    assert not request.in_batch


async def test_a_deadline_ends_a_request_in_a_run_and_its_tensors_are_read_on(held: Held) -> None:
    held.batcher.start()
    request, reply = held.admit(0, deadline=asyncio.get_running_loop().time() + 0.02)
    await until(reply.done)
    assert isinstance(reply.outcomes[0], DeadlineExceededError)
    assert request.in_batch
    held.gate.set()
    await until(lambda: held.unread == [request.number])
    await held.batcher.drain()
    assert len(reply.outcomes) == 1


async def test_a_request_that_waited_too_long_is_refused(held: Held) -> None:
    await held.begin()
    request, reply = held.admit(1, max_wait=0.005)
    await until(reply.done)
    assert isinstance(reply.outcomes[0], QueueTimeoutError)
    assert held.batcher.waiting_requests == 0
    assert not request.in_batch


async def test_timers_end_with_the_answer(held: Held) -> None:
    held.gate.set()
    held.batcher.start()
    request, reply = held.admit(3, deadline=asyncio.get_running_loop().time() + 60)
    (timer,) = request.timers
    await until(reply.done)
    assert value(reply) == 6
    assert timer.cancelled()
    await held.batcher.drain()


async def test_tensors_of_a_batch_that_fails_are_read_until_the_last_run_of_each(held: Held) -> None:
    def fail(feeds: object) -> object:
        raise EngineRunError("poison")

    held.engine._function = fail  # type: ignore[assignment]
    first, _ = await held.begin()
    gone, stays = held.admit(1)[0], held.admit(2)
    await asyncio.sleep(0)
    held.batcher.withdraw(first)
    held.gate.set()
    await until(lambda: held.unread == [first.number])
    await until(stays[1].done)
    held.batcher.withdraw(gone)
    await held.batcher.drain()
    assert isinstance(stays[1].outcomes[0], EngineRunError)
    assert not any(request.in_batch for request in (first, gone))


async def test_an_abort_lets_go_of_a_batch_that_no_engine_has_begun(held: Held) -> None:
    await held.begin()
    prepared = [held.admit(number) for number in range(1, 5)]
    await until(lambda: prepared[0][0].in_batch)
    held.batcher.abort()
    assert held.unread == [request.number for request, _ in prepared]
    assert all(isinstance(reply.outcomes[0], StoppingError) for _, reply in prepared)

"""Batches: requests that run together, that are refused, and that each get their own rows."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from mnserve.batching.batcher import Batcher
from mnserve.batching.options import BatcherOptions
from mnserve.batching.request_limits import RequestLimits
from mnserve.codec.decoding import InferenceWork
from mnserve.engines.fake import FakeEngine
from mnserve.errors import (
    DeadlineExceededError,
    EngineRunError,
    ModelNotReadyError,
    QueueFullError,
    SettingsError,
    StoppingError,
)
from mnserve.execution.engine_thread import EngineThread
from mnserve.execution.instances import Instance
from mnserve.execution.results import BatchResult, InferenceResult

Array = np.ndarray[Any, Any]


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Gate that holds the engine; opened at the end in any case, so that no thread is left behind."""
    event = threading.Event()
    yield event
    event.set()


def options(**fields: Any) -> BatcherOptions:
    return BatcherOptions(**{"max_batch_size": 4, "max_queue_rows": 64, **fields})


def alone(engine: FakeEngine) -> Instance:
    return Instance(engine=engine, thread=EngineThread("m"))


def work(*values: float, width: int = 2) -> InferenceWork:
    """One row for each value."""
    return InferenceWork(
        feeds={"x": np.repeat(np.array(values, dtype=np.float32)[:, None], width, axis=1)},
        rows=len(values),
        outputs=("y",),
    )


def firsts(answer: InferenceResult) -> list[float]:
    return [float(value) for value in answer.arrays[0][:, 0]]


async def until(condition: Any) -> None:
    """Waits for an effect of another thread or task."""
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


class Running:
    """A batcher whose engine is held by a gate, with one request of one row already inside it."""

    def __init__(self, batcher: Batcher, engine: FakeEngine) -> None:
        self.batcher = batcher
        self.engine = engine
        self.tasks: list[asyncio.Task[InferenceResult]] = []

    async def hold(self) -> asyncio.Task[InferenceResult]:
        task = self.submit(work(100))
        await until(self.engine.started.is_set)
        return task

    def submit(self, request: InferenceWork, **limits: Any) -> asyncio.Task[InferenceResult]:
        task = asyncio.ensure_future(self.batcher.infer(request, RequestLimits(**limits)))
        self.tasks.append(task)
        return task

    def batches(self) -> list[int]:
        return [len(call["x"]) for call in self.engine.calls]


def start(engine: FakeEngine, **fields: Any) -> Running:
    batcher = Batcher([alone(engine)], name="m", options=options(**fields))
    batcher.start()
    return Running(batcher, engine)


async def test_an_idle_engine_takes_a_request_at_once() -> None:
    run = start(FakeEngine())
    assert firsts(await run.submit(work(1, 2))) == [2, 4]
    assert run.batches() == [2]
    await run.batcher.drain()


async def test_batches_form_while_the_engine_is_busy(gate: threading.Event) -> None:
    run = start(FakeEngine(gate=gate))
    await run.hold()
    tasks = [run.submit(work(value)) for value in range(6)]
    await until(lambda: run.batcher.waiting_rows == 6)
    gate.set()
    assert [firsts(answer) for answer in await asyncio.gather(*tasks)] == [[2.0 * value] for value in range(6)]
    assert run.batches() == [1, 4, 2]
    await run.batcher.drain()


async def test_a_single_request_runs_without_a_copy() -> None:
    run = start(FakeEngine())
    single = work(1)
    await run.submit(single)
    assert run.engine.calls[0]["x"] is single.feeds["x"]
    await run.batcher.drain()


async def test_different_shapes_never_share_a_batch_and_none_is_overtaken_for_ever(gate: threading.Event) -> None:
    run = start(FakeEngine(gate=gate))
    await run.hold()
    narrow = [run.submit(work(1)), run.submit(work(2))]
    wide = run.submit(work(3, width=5))
    narrow.append(run.submit(work(4)))
    gate.set()
    await asyncio.gather(*narrow, wide)
    assert [call["x"].shape for call in run.engine.calls] == [(1, 2), (3, 2), (1, 5)]
    assert firsts(await wide) == [6]
    await run.batcher.drain()


async def test_the_oldest_goes_first_although_another_bucket_is_fuller(gate: threading.Event) -> None:
    run = start(FakeEngine(gate=gate))
    await run.hold()
    wide = run.submit(work(3, width=5))
    narrow = [run.submit(work(value)) for value in range(9)]
    gate.set()
    await asyncio.gather(*narrow, wide)
    assert [call["x"].shape[1] for call in run.engine.calls] == [2, 5, 2, 2, 2]
    await run.batcher.drain()


async def test_a_large_request_is_not_starved_by_small_ones(gate: threading.Event) -> None:
    run = start(FakeEngine(gate=gate))
    await run.hold()
    tasks = [run.submit(work(1)), run.submit(work(1, 2, 3, 4)), run.submit(work(5)), run.submit(work(6))]
    gate.set()
    await asyncio.gather(*tasks)
    assert run.batches() == [1, 1, 4, 2]
    await run.batcher.drain()


async def test_a_cancelled_caller_does_not_hold_back_its_batch(gate: threading.Event) -> None:
    run = start(FakeEngine(gate=gate))
    await run.hold()
    tasks = [run.submit(work(value)) for value in (1, 2, 3)]
    await until(lambda: run.batcher.waiting_rows == 3)
    tasks[1].cancel()
    await until(lambda: run.batcher.waiting_rows == 2)
    gate.set()
    assert firsts(await tasks[0]) == [2]
    assert firsts(await tasks[2]) == [6]
    assert tasks[1].cancelled()
    assert run.batches() == [1, 2]
    await run.batcher.drain()


async def test_a_caller_cancelled_while_its_batch_runs_frees_the_engine(gate: threading.Event) -> None:
    run = start(FakeEngine(gate=gate))
    first = await run.hold()
    first.cancel()
    second = run.submit(work(2))
    gate.set()
    assert firsts(await second) == [4]
    assert first.cancelled()
    await run.batcher.drain()


async def test_a_deadline_ends_a_waiting_request_while_the_engine_is_busy(gate: threading.Event) -> None:
    run = start(FakeEngine(gate=gate))
    held = await run.hold()
    soon = asyncio.get_running_loop().time() + 0.02
    late = run.submit(work(1), deadline=soon)
    with pytest.raises(DeadlineExceededError):
        await late
    assert not held.done()
    assert run.batcher.waiting_rows == 0
    gate.set()
    await held
    await run.batcher.drain()
    assert run.batches() == [1]  # the expired request never ran


async def test_a_deadline_ends_a_request_inside_a_running_batch(gate: threading.Event) -> None:
    run = start(FakeEngine(gate=gate))
    late = run.submit(work(1), deadline=asyncio.get_running_loop().time() + 0.05)
    await until(run.engine.started.is_set)
    with pytest.raises(DeadlineExceededError):
        await late
    gate.set()
    await run.batcher.drain()


async def test_a_deadline_that_has_passed_is_refused_on_arrival() -> None:
    run = start(FakeEngine())
    with pytest.raises(DeadlineExceededError):
        await run.submit(work(1), deadline=asyncio.get_running_loop().time() - 1)
    assert run.engine.calls == []
    await run.batcher.drain()


async def test_the_queue_is_bounded_in_rows(gate: threading.Event) -> None:
    run = start(FakeEngine(gate=gate), max_queue_rows=5)
    await run.hold()
    tasks = [run.submit(work(1, 2)), run.submit(work(3, 4))]
    await until(lambda: run.batcher.waiting_rows == 4)
    with pytest.raises(QueueFullError, match=r"4 rows are waiting, and 2 more .* limit of 5"):
        await run.submit(work(5, 6))
    tasks.append(run.submit(work(7)))
    gate.set()
    await asyncio.gather(*tasks)
    assert firsts(await run.submit(work(8, 9))) == [16, 18]
    await run.batcher.drain()


def poison(feeds: Mapping[str, Array]) -> Mapping[str, Array]:
    if (feeds["x"] < 0).any():
        raise EngineRunError("a negative number")
    return {"y": feeds["x"] * 2}


async def test_only_the_guilty_caller_gets_the_error(gate: threading.Event) -> None:
    run = start(FakeEngine(gate=gate, function=poison))
    await run.hold()
    tasks = [run.submit(work(value)) for value in (1, -1, 3)]
    gate.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(results[1], EngineRunError)
    assert [firsts(results[index]) for index in (0, 2)] == [[2], [6]]  # type: ignore[arg-type]
    assert run.batches() == [1, 3, 1, 1, 1]
    await run.batcher.drain()


async def test_an_engine_that_answers_with_other_rows_is_caught() -> None:
    run = start(FakeEngine(function=lambda feeds: {"y": feeds["x"][:1]}))
    with pytest.raises(EngineRunError, match="batch of 2 rows"):
        await run.submit(work(1, 2))
    await run.batcher.drain()


async def test_only_wanted_outputs_are_computed() -> None:
    run = start(FakeEngine())
    asked: list[list[str]] = []
    original = run.engine.run

    def spy(feeds: Any, outputs: Any) -> Any:
        asked.append(list(outputs))
        return original(feeds, outputs)

    run.engine.run = spy  # type: ignore[method-assign]
    single = work(1)
    answer = await run.submit(InferenceWork(feeds=single.feeds, rows=1, outputs=()))
    assert answer.arrays == []
    assert asked == [[]]
    await run.batcher.drain()


async def test_a_dead_loop_fails_its_callers_and_the_model() -> None:
    died: list[str] = []

    def broken(_: BatchResult) -> None:
        raise ZeroDivisionError("a bug")

    engine = FakeEngine()
    batcher = Batcher([alone(engine)], name="m", options=options(), on_batch=broken, on_death=died.append)
    batcher.start()
    with pytest.raises(ModelNotReadyError, match="a bug"):
        await batcher.infer(work(1))
    with pytest.raises(ModelNotReadyError, match="a bug"):
        await batcher.infer(work(2))
    assert len(died) == 1
    assert "restart" in died[0]
    await batcher.drain()


async def test_a_drain_refuses_new_requests_and_finishes_the_waiting_ones(gate: threading.Event) -> None:
    run = start(FakeEngine(gate=gate))
    await run.hold()
    tasks = [run.submit(work(value)) for value in range(7)]
    await until(lambda: run.batcher.waiting_rows == 7)
    drained = asyncio.ensure_future(run.batcher.drain())
    await asyncio.sleep(0)
    with pytest.raises(StoppingError):
        await run.submit(work(9))
    gate.set()
    assert [firsts(answer) for answer in await asyncio.gather(*tasks)] == [[2.0 * value] for value in range(7)]
    await drained


async def test_an_abort_fails_waiting_and_running_requests(gate: threading.Event) -> None:
    run = start(FakeEngine(gate=gate))
    held = await run.hold()
    waiting = run.submit(work(1))
    await until(lambda: run.batcher.waiting_rows == 1)
    run.batcher.abort()
    for task in (held, waiting):
        with pytest.raises(StoppingError):
            await task


async def test_without_a_batch_dimension_requests_run_one_by_one(gate: threading.Event) -> None:
    run = start(FakeEngine(gate=gate), max_batch_size=0)
    await run.hold()
    tasks = [run.submit(InferenceWork(feeds={"x": np.full(3, value)}, rows=1, outputs=("y",))) for value in range(3)]
    gate.set()
    answers = await asyncio.gather(*tasks)
    assert [answer.arrays[0].tolist() for answer in answers] == [[2 * value] * 3 for value in range(3)]
    assert len(run.engine.calls) == 4
    await run.batcher.drain()


async def test_no_exception_stays_unretrieved(gate: threading.Event) -> None:
    """asyncio complains about exceptions that were never retrieved; a caller that left must not cause that."""
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    run = start(FakeEngine(gate=gate, function=poison))
    task = run.submit(work(-1))
    await until(run.engine.started.is_set)
    run.batcher.abort()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    del task
    run.tasks.clear()
    gc.collect()
    await asyncio.sleep(0)
    assert complaints == []


def test_options_that_cannot_work_are_refused() -> None:
    with pytest.raises(SettingsError, match="3 rows, less than one batch of 4"):
        options(max_queue_rows=3)
    with pytest.raises(SettingsError, match="delay"):
        options(max_delay=-1)
    with pytest.raises(SettingsError, match="0 bytes"):
        options(max_queue_bytes=0)


async def test_the_queue_is_bounded_in_bytes(gate: threading.Event) -> None:
    """Sixteen bytes for a row of four numbers; the running request does not count."""
    run = start(FakeEngine(gate=gate), max_queue_bytes=40)
    await run.hold()
    tasks = [run.submit(work(1, width=4)), run.submit(work(2, width=4))]
    await until(lambda: run.batcher.waiting_bytes == 32)
    with pytest.raises(QueueFullError, match=r"32 bytes are waiting, and 16 more .* limit of 40"):
        await run.submit(work(3, width=4))
    tasks[0].cancel()
    await until(lambda: run.batcher.waiting_bytes == 16)
    tasks.append(run.submit(work(3, width=4)))
    gate.set()
    assert [firsts(answer) for answer in await asyncio.gather(*tasks[1:])] == [[4], [6]]
    assert run.batcher.waiting_bytes == 0
    await run.batcher.drain()


async def test_a_request_that_would_wait_alone_is_admitted_whatever_its_size() -> None:
    run = start(FakeEngine(), max_queue_bytes=1)
    assert firsts(await run.submit(work(1, width=100))) == [2]
    await run.batcher.drain()


async def test_the_time_in_the_queue_is_measured(gate: threading.Event) -> None:
    run = start(FakeEngine(gate=gate))
    await run.hold()
    task = run.submit(work(1))
    await until(lambda: run.batcher.waiting_rows == 1)
    await asyncio.sleep(0.02)
    gate.set()
    assert (await task).queue_ns > 15_000_000
    await run.batcher.drain()

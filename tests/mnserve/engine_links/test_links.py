"""Both ends of a link in one event loop, around batchers of fake engines."""

from __future__ import annotations

import asyncio
import math
import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from mnserve.batching.batcher import Batcher
from mnserve.batching.options import BatcherOptions
from mnserve.batching.request_limits import RequestLimits
from mnserve.channel.memory import SharedMemory
from mnserve.channel.records import (
    ANSWER_LAYOUT,
    FREED,
    INLINE,
    LAYOUT,
    RELEASE,
    Answer,
    Submit,
    pack_answer,
    pack_fail,
    pack_layout,
    pack_number,
    pack_submit,
)
from mnserve.codec.decoding import InferenceWork
from mnserve.engine_links import layouts
from mnserve.engine_links.front_end_link import FrontEndLink, LinkMemories
from mnserve.engine_links.served import Served
from mnserve.engines.base import TensorSpec
from mnserve.engines.fake import Array, FakeEngine
from mnserve.errors import (
    AnswerTooLargeError,
    DeadlineExceededError,
    EngineLostError,
    EngineProcessError,
    InvalidRequestError,
    QueueFullError,
    StaleEndpointError,
)
from mnserve.execution.engine_thread import EngineThread
from mnserve.execution.instances import Instance
from mnserve.execution.request import Reply, WaitingRequest
from mnserve.execution.results import NO_TIMES, InferenceResult
from mnserve.remote.admission import OnAdmitted
from mnserve.remote.engine_link import EngineLink

MEMORY_BYTES = 2**24


def work(*values: float, width: int = 4, **others: Array) -> InferenceWork:
    """A request of one row for each value; its answer is twice that."""
    rows = np.repeat(np.array(values, np.float32)[:, None], width, axis=1)
    return InferenceWork(feeds={"x": rows, **others}, rows=len(values), outputs=("y",))


def strings(*texts: bytes) -> InferenceWork:
    return InferenceWork(feeds={"x": np.array(texts, object)[:, None]}, rows=len(texts), outputs=("y",))


def served(
    engine: FakeEngine, *, max_queue_rows: int = 1024, max_batch_size: int = 8, kind: type[Batcher] = Batcher
) -> Batcher:
    """A version of a model with one engine, running."""
    options = BatcherOptions(max_batch_size=max_batch_size, max_queue_rows=max_queue_rows)
    batcher = kind([Instance(engine=engine, thread=EngineThread("m"))], name="m", options=options)
    batcher.start()
    return batcher


def string_engine() -> FakeEngine:
    """Answers texts backwards."""
    backwards = np.vectorize(lambda text: text[::-1], otypes=[object])
    return FakeEngine(
        inputs=(TensorSpec(name="x", datatype="BYTES", shape=(-1, 1)),),
        outputs=(TensorSpec(name="y", datatype="BYTES", shape=(-1, 1)),),
        function=lambda feeds: {"y": backwards(feeds["x"])},
    )


@dataclass
class Pair:
    """Two ends of a link, and the versions that are served over it."""

    front: EngineLink
    engine: FrontEndLink
    endpoints: dict[int, Served]
    ends: list[str] = field(default_factory=list)


@contextmanager
def linked(endpoints: dict[int, Served], nbytes: int = MEMORY_BYTES) -> Iterator[Pair]:
    """Links a front end and an engine process in the running loop."""
    sockets = socket.socketpair()
    requests, answers = SharedMemory.create(nbytes), SharedMemory.create(nbytes)
    other = LinkMemories(SharedMemory.from_fd(os.dup(requests.fd)), SharedMemory.from_fd(os.dup(answers.fd)))
    ends: list[str] = []
    pair = Pair(
        EngineLink(sockets[0], LinkMemories(requests, answers), ends.append),
        FrontEndLink(sockets[1], other, endpoints),
        endpoints,
        ends,
    )
    try:
        yield pair
    finally:
        pair.front.close()
        pair.engine.close()
        for model in endpoints.values():
            if isinstance(model, Batcher):
                model.abort()


def gated() -> tuple[FakeEngine, threading.Event]:
    """An engine whose runs wait until an event is set."""
    gate = threading.Event()
    return FakeEngine(gate=gate), gate


async def started(engine: FakeEngine) -> None:
    assert await asyncio.to_thread(engine.started.wait, 5)


async def used_memory_is_free(pair: Pair) -> None:
    """Waits until no place of either side is taken."""
    async with asyncio.timeout(5):
        while pair.front._arena.used or pair.engine._arena.used:
            await asyncio.sleep(0.001)


# Requests and answers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 400, 5_000, 400_000], ids=["inline", "inline-out", "placed", "large"])
async def test_tensors_of_every_size_are_answered(width: int) -> None:
    engine = FakeEngine()
    with linked({7: served(engine)}) as pair:
        result = await pair.front.infer(7, work(1.5, 2.5, width=width), RequestLimits())
        (y,) = result.arrays
        assert y.shape == (2, width)
        assert y[:, -1].tolist() == [3.0, 5.0]
        assert result.times.infer_ns > 0
        assert (result.lookup_ns, result.kept) == (-1, False)
        assert (pair.front.outstanding, pair.engine.outstanding) == (0, 0)
        await used_memory_is_free(pair)


@pytest.mark.parametrize("size", [3, 3_000, 40_000])
async def test_strings_are_answered(size: int) -> None:
    with linked({1: served(string_engine())}) as pair:
        result = await pair.front.infer(1, strings(b"ab", b"", b"xy" * size), RequestLimits())
        assert result.arrays[0][:, 0].tolist() == [b"ba", b"", b"yx" * size]
        await used_memory_is_free(pair)


async def test_names_and_outputs_of_several_tensors_keep_their_order() -> None:
    def function(feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        return {"y": feeds["x"] + feeds["z"], "n": np.arange(len(feeds["x"]), dtype=np.int64)}

    specs = [TensorSpec(name=name, datatype="FP32", shape=(-1, -1)) for name in ("y", "n")]
    with linked({1: served(FakeEngine(outputs=specs, function=function))}) as pair:
        asked = work(1, 2, z=np.full((2, 1), 5, np.float32))
        asked.outputs = ("n", "y")
        n, y = (await pair.front.infer(1, asked, RequestLimits())).arrays
        assert (n.dtype, n.tolist(), y[:, 0].tolist()) == (np.int64, [0, 1], [6, 7])


async def test_an_error_arrives_as_it_is_raised() -> None:
    engine, gate = gated()
    with linked({1: served(engine, max_queue_rows=8)}) as pair:
        running = asyncio.create_task(pair.front.infer(1, work(1), RequestLimits()))
        await started(engine)
        now = asyncio.get_running_loop().time()
        with pytest.raises(DeadlineExceededError, match="passed on arrival"):
            await pair.front.infer(1, work(1), RequestLimits(deadline=now - 1))
        full = asyncio.create_task(pair.front.infer(1, work(*range(8)), RequestLimits()))
        await asyncio.sleep(0.01)
        with pytest.raises(QueueFullError, match="8 rows are waiting"):
            await pair.front.infer(1, work(1, width=5_000), RequestLimits())
        with pytest.raises(StaleEndpointError, match="not served any more"):
            await pair.front.infer(2, work(1), RequestLimits())
        gate.set()
        await asyncio.gather(running, full)
        await used_memory_is_free(pair)


async def test_a_fault_of_the_engine_process_is_logged_there(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: Mapping[str, Array]) -> Mapping[str, Array]:
        raise ZeroDivisionError("secret")

    with linked({1: served(FakeEngine(function=fail))}) as pair:
        with pytest.raises(EngineProcessError, match="the engine process, whose log has the details"):
            await pair.front.infer(1, work(1), RequestLimits())
        assert "secret" in caplog.text


async def test_a_kept_answer_says_so() -> None:
    class Keeps:
        """Has every answer."""

        def admit(self, work: InferenceWork, limits: RequestLimits, reply: Reply) -> None:
            reply.set_result(InferenceResult([work.feeds["x"] + limits.level], 0, NO_TIMES, 77, kept=True))

        def withdraw(self, request: WaitingRequest) -> None:
            raise AssertionError

        async def admit_later(self, *args: Any) -> None:
            raise AssertionError

    with linked({1: Keeps()}) as pair:
        result = await pair.front.infer(1, work(1), RequestLimits(level=3))
        assert (result.arrays[0][0, 0], result.lookup_ns, result.kept) == (4.0, 77, True)


async def test_limits_travel_with_the_request() -> None:
    seen: list[RequestLimits] = []

    class Notes(Batcher):
        """Notes the limits of its requests."""

        def admit(self, work: InferenceWork, limits: RequestLimits, reply: Reply) -> WaitingRequest:
            seen.append(limits)
            return super().admit(work, limits, reply)

    with linked({1: served(FakeEngine(), kind=Notes)}) as pair:
        deadline = asyncio.get_running_loop().time() + 60
        sent = [RequestLimits(), RequestLimits(2, deadline, 1.5, True), RequestLimits(1, None, 2.0)]
        for limits in sent:
            await pair.front.infer(1, work(1), limits)
        assert seen == sent


# Cancelled, late and held requests ----------------------------------------------------------------------------


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("width", [4, 5_000])
async def test_a_cancelled_request_leaves_the_queue_and_its_memory(width: int, streamed: bool) -> None:
    engine, gate = gated()
    model = served(engine)
    on_admitted: OnAdmitted | None = (lambda _: None) if streamed else None
    with linked({1: model}) as pair:
        running = asyncio.create_task(pair.front.infer(1, work(1), RequestLimits()))
        await started(engine)
        waiting = asyncio.create_task(pair.front.infer(1, work(2, width=width), RequestLimits(), on_admitted))
        async with asyncio.timeout(5):
            while not model.waiting_requests:
                await asyncio.sleep(0.001)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        async with asyncio.timeout(5):
            while pair.front.outstanding > 1:
                await asyncio.sleep(0.001)
        assert model.waiting_requests == 0
        assert pair.front._arena.used == 0 or streamed
        gate.set()
        assert (await running).arrays[0][0, 0] == 2.0
        await used_memory_is_free(pair)
    assert len(engine.calls) == 1


@pytest.mark.parametrize("width", [5_000, 400_000])
@pytest.mark.parametrize("late", [False, True])
async def test_a_place_is_not_used_again_while_an_engine_reads_it(width: int, late: bool) -> None:
    seen: list[float] = []
    go, may_end = threading.Event(), threading.Event()

    def look(feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        go.wait(5)
        seen.append(float(feeds["x"][0, -1]))
        may_end.wait(5)
        return {"y": feeds["x"]}

    engine = FakeEngine(function=look)
    with linked({1: served(engine)}) as pair:
        deadline = asyncio.get_running_loop().time() + 0.05 if late else None
        first = asyncio.create_task(pair.front.infer(1, work(1, width=width), RequestLimits(deadline=deadline)))
        await started(engine)
        if late:
            with pytest.raises(DeadlineExceededError):
                await first
        else:
            first.cancel()
            await asyncio.wait([first])
            async with asyncio.timeout(5):
                while pair.front.outstanding:
                    await asyncio.sleep(0.001)
        used = pair.front._arena.used
        assert used >= width * 4
        second = asyncio.create_task(pair.front.infer(1, work(2, width=width), RequestLimits()))
        async with asyncio.timeout(5):
            while pair.front._arena.used == used:
                await asyncio.sleep(0.001)
        go.set()
        may_end.set()
        await second
        assert seen == [1.0, 2.0]
        await used_memory_is_free(pair)


async def test_a_stream_waits_for_room_and_hears_of_its_admission() -> None:
    engine, gate = gated()
    with linked({1: served(engine, max_queue_rows=8)}, nbytes=2**18) as pair:
        admitted: list[int] = []
        running = asyncio.create_task(pair.front.infer(1, work(1), RequestLimits()))
        await started(engine)
        requests = [
            asyncio.create_task(pair.front.infer(1, work(i, width=9_000), RequestLimits(), admitted.append))
            for i in range(20)  # more than the queue takes, and than the memory
        ]
        await asyncio.sleep(0.02)
        assert 0 < len(admitted) < 8
        with pytest.raises(QueueFullError, match=r"requests on their way to the engines take \d+ of 262144 bytes"):
            await pair.front.infer(1, work(1, width=9_000), RequestLimits())
        gate.set()
        results = await asyncio.gather(*requests)
        assert [result.arrays[0][0, -1] for result in results] == [2.0 * i for i in range(20)]
        assert admitted == [9_000 * 4] * 20
        await running
        await used_memory_is_free(pair)


async def test_requests_and_answers_larger_than_the_memory_are_refused() -> None:
    def grow(feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        return {"y": np.zeros((1, 100_000), np.float32)}

    with linked({1: served(FakeEngine(function=grow))}, nbytes=2**18) as pair:
        with pytest.raises(InvalidRequestError, match="more than the 262144 that a front end passes on"):
            await pair.front.infer(1, work(1, width=100_000), RequestLimits())
        with pytest.raises(AnswerTooLargeError, match="400000 bytes, more than the 262144"):
            await pair.front.infer(1, work(1), RequestLimits())


async def test_answers_wait_for_room() -> None:
    def grow(feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        return {"y": np.repeat(feeds["x"], 12_000, axis=1)}

    with linked({1: served(FakeEngine(function=grow))}, nbytes=2**17) as pair:
        results = await asyncio.gather(*(pair.front.infer(1, work(i, width=1), RequestLimits()) for i in range(40)))
        assert [result.arrays[0][0, -1] for result in results] == list(range(40))
        await used_memory_is_free(pair)


# Ends of a link -----------------------------------------------------------------------------------------------


async def test_the_end_of_either_side_ends_all_requests() -> None:
    for side in ("engine", "front"):
        engine, gate = gated()
        model = served(engine)
        with linked({1: model}) as pair:
            requests = [
                asyncio.create_task(pair.front.infer(1, work(i, width=9_000), RequestLimits(), on_admitted))
                for i, on_admitted in enumerate([None, lambda _: None] * 10)
            ]
            await started(engine)
            await asyncio.sleep(0.01)
            getattr(pair, side).close()
            done = await asyncio.gather(*requests, return_exceptions=True)
            assert {type(error) for error in done} == {EngineLostError}
            assert pair.front.closed
            assert (pair.engine.outstanding, len(pair.ends)) == (0, 1)
            with pytest.raises(EngineLostError, match="try again later"):
                await pair.front.infer(1, work(1), RequestLimits())
            gate.set()
            async with asyncio.timeout(5):
                while not model.idle:
                    await asyncio.sleep(0.001)
            assert len(engine.calls) == 1


LAYOUT_JSON = b'{"inputs": [["x", "FP32", [1, 4]]], "outputs": ["y"], "rows": 1, "alone": false}'
DAMAGED = [
    pack_submit(Submit(1, 1, 0, 0, 0, math.inf, 0.0, 0, 16)),  # its layout was not told
    pack_layout(LAYOUT, 1, LAYOUT_JSON),  # not the next number
    pack_layout(LAYOUT, 0, b"{"),
    pack_layout(LAYOUT, 0, b'{"inputs": [["x", "FP32", [1, -4]]], "outputs": ["y"], "rows": 1, "alone": false}'),
    pack_layout(LAYOUT, 0, b'{"inputs": [["x", "FP32", [1]]], "outputs": ["y"], "rows": 0, "alone": false}'),
    pack_number(RELEASE, 4096),
    pack_number(FREED, 1),
]
TOLD = pack_layout(LAYOUT, 0, LAYOUT_JSON)
DAMAGED += [
    TOLD + pack_submit(Submit(1, 1, 0, 0, 0, math.inf, 0.0, 2**24 - 15, 16)),  # beyond the memory
    TOLD + pack_submit(Submit(1, 1, 0, 0, 0, math.inf, 0.0, 2**64 - 1, 16)),
    TOLD + pack_submit(Submit(1, 1, 0, 0, 0, math.inf, 0.0, 0, 20)),  # not the size of its layout
    TOLD + pack_submit(Submit(1, 1, 0, 0, INLINE, math.inf, 0.0, 0, 16), bytes(12)),
    TOLD + 2 * pack_submit(Submit(1, 1, 0, 0, 0, math.inf, 0.0, 0, 16)),  # twice
]


@pytest.mark.parametrize("records", DAMAGED, ids=range(len(DAMAGED)))
async def test_damaged_records_end_the_link_of_an_engine_process(
    records: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with linked({1: served(FakeEngine())}) as pair:
        pair.front._link.send(records)
        async with asyncio.timeout(5):
            while not pair.front.closed:
                await asyncio.sleep(0.001)
        assert "a link between processes ended: " in caplog.text
        assert pair.ends == ["the other side has ended"]
        assert pair.engine.outstanding == 0


ANSWERED = pack_layout(ANSWER_LAYOUT, 0, b'[["FP32", [1, 4]]]')


@pytest.mark.parametrize(
    "records",
    [
        pack_answer(Answer(1, 0, INLINE, 0, 0, 0, 0, 0, 0, 16), bytes(16)),
        ANSWERED + pack_answer(Answer(1, 0, INLINE, 0, 0, 0, 0, 0, 0, 12), bytes(12)),
        ANSWERED + pack_answer(Answer(1, 0, 0, 0, 0, 0, 0, 0, 2**24, 16)),
        ANSWERED + pack_answer(Answer(9, 0, INLINE, 0, 0, 0, 0, 0, 0, 16), bytes(16)),
        pack_layout(ANSWER_LAYOUT, 0, b'[["FP32", "x"]]'),
        pack_fail(9, 0, b"{}"),
        pack_number(FREED, 1),
        pack_number(RELEASE, 1),
    ],
    ids=range(8),
)
async def test_damaged_records_end_the_link_of_a_front_end(records: bytes) -> None:
    engine, gate = gated()
    with linked({1: served(engine)}) as pair:
        waiting = asyncio.create_task(pair.front.infer(1, work(1), RequestLimits()))
        await started(engine)
        pair.engine._link.send(records)
        with pytest.raises(EngineLostError):
            await asyncio.wait_for(waiting, 5)
        gate.set()


async def test_layouts_start_anew_once_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layouts, "MAX_LAYOUTS", 3)
    with linked({1: served(FakeEngine(), max_batch_size=64)}) as pair:
        for rows in (*range(1, 11), 1, 10, 9, 1):
            (y,) = (await pair.front.infer(1, work(*range(rows)), RequestLimits())).arrays
            assert y[:, 0].tolist() == [2.0 * i for i in range(rows)]
        assert len(pair.engine._layouts._known) <= 3
        assert len(pair.front._answers._layouts._known) <= 3

"""Answers of a stream come in order, however long each takes, and nothing is left working when it ends."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnserve.rpc.streaming import StreamedRequest, StreamMemory, answer_in_order


async def numbers(count: int, read: list[int] | None = None) -> AsyncIterator[int]:
    for number in range(count):
        if read is not None:
            read.append(number)
        yield number
        await asyncio.sleep(0)


@given(turns=st.lists(st.integers(0, 5), max_size=20), limit=st.integers(1, 4))
def test_every_request_has_one_answer_in_its_place(turns: list[int], limit: int) -> None:
    async def scenario() -> None:
        sent: list[int] = []
        working = most = 0

        async def answer(number: int, streamed: StreamedRequest) -> int:
            nonlocal working, most
            streamed.admitted(0)
            working += 1
            most = max(most, working)
            for _ in range(turns[number]):
                await asyncio.sleep(0)
            working -= 1
            return number

        async def send(number: int) -> None:
            sent.append(number)

        assert await answer_in_order(numbers(len(turns)), answer, send, max_in_progress=limit)
        assert sent == list(range(len(turns)))
        assert most <= limit

    asyncio.run(scenario())


async def test_requests_are_worked_on_at_the_same_time() -> None:
    both, sent = asyncio.Barrier(2), list[int]()

    async def answer(number: int, streamed: StreamedRequest) -> int:
        streamed.admitted(0)
        await both.wait()
        return number

    async def send(number: int) -> None:
        sent.append(number)

    async with asyncio.timeout(5):
        assert await answer_in_order(numbers(2), answer, send)
    assert sent == [0, 1]


async def test_a_receiver_that_reads_nothing_stops_the_reading() -> None:
    read: list[int] = []
    stalled = asyncio.Event()

    async def answer(number: int, streamed: StreamedRequest) -> int:
        return number

    async def send(number: int) -> None:
        stalled.set()
        await asyncio.Event().wait()

    call = asyncio.ensure_future(answer_in_order(numbers(1000, read), answer, send, max_in_progress=8))
    await stalled.wait()
    for _ in range(100):
        await asyncio.sleep(0)
    assert len(read) <= 9
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_work_ends_with_the_stream() -> None:
    ended: list[int] = []

    async def answer(number: int, streamed: StreamedRequest) -> int:
        streamed.admitted(0)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(number)
        return number

    call = asyncio.ensure_future(answer_in_order(numbers(3), answer, lambda number: asyncio.sleep(0)))
    for _ in range(20):
        await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert sorted(ended) == [0, 1, 2]


async def test_a_broken_stream_fails_after_the_answers_of_its_requests() -> None:
    sent: list[int] = []

    async def broken() -> AsyncIterator[int]:
        yield 1
        yield 2
        raise ConnectionError("gone")

    async def answer(number: int, streamed: StreamedRequest) -> int:
        await asyncio.sleep(0)
        return number

    async def send(number: int) -> None:
        sent.append(number)

    with pytest.raises(ConnectionError, match="gone"):
        await answer_in_order(broken(), answer, send)
    assert sent == [1, 2]


async def test_a_stopped_stream_answers_the_requests_that_were_read() -> None:
    sent: list[int] = []
    enough, working = asyncio.Event(), asyncio.Event()

    async def some() -> AsyncIterator[int]:
        yield 1
        yield 2
        await asyncio.Event().wait()

    async def answer(number: int, streamed: StreamedRequest) -> int:
        streamed.admitted(0)
        await working.wait()
        return number

    async def send(number: int) -> None:
        sent.append(number)

    call = asyncio.ensure_future(answer_in_order(some(), answer, send, enough=enough))
    for _ in range(20):
        await asyncio.sleep(0)
    enough.set()
    working.set()
    assert await call is False
    assert sent == [1, 2]


async def test_a_stream_is_read_on_once_its_last_request_is_admitted() -> None:
    read: list[int] = []
    waiting: list[StreamedRequest] = []

    async def answer(number: int, streamed: StreamedRequest) -> int:
        waiting.append(streamed)
        await asyncio.Event().wait()
        return number

    call = asyncio.ensure_future(answer_in_order(numbers(100, read), answer, lambda _: asyncio.sleep(0)))
    for expected in range(1, 6):
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(read) == expected
        waiting[-1].admitted(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def read_by_stalled(
    memory: StreamMemory, request_bytes: int, answer_bytes: int
) -> tuple[int, asyncio.Future[bool]]:
    """Starts a stream whose receiver takes one answer; returns how many requests were read, and the call."""
    read: list[int] = []
    sent: list[int] = []

    async def answer(number: int, streamed: StreamedRequest) -> int:
        streamed.admitted(request_bytes)
        await asyncio.sleep(0)
        streamed.answered(answer_bytes)
        return number

    async def send(number: int) -> None:
        if sent:
            await asyncio.Event().wait()
        sent.append(number)

    call = asyncio.ensure_future(answer_in_order(numbers(1000, read), answer, send, memory=memory))
    for _ in range(2000):
        await asyncio.sleep(0)
    return len(read), call


@pytest.mark.parametrize(("request_bytes", "answer_bytes"), [(0, 100), (100, 100), (100, 50)])
async def test_streams_whose_clients_read_nothing_hold_bounded_memory(request_bytes: int, answer_bytes: int) -> None:
    """Requests and answers alike; each stream gets one request in, and leaves room to the others."""
    memory = StreamMemory(2000)
    counts, calls = [], []
    for _ in range(6):
        count, call = await read_by_stalled(memory, request_bytes, answer_bytes)
        counts.append(count)
        calls.append(call)
    assert memory.held <= 2000 + 6 * 200
    assert 3 <= counts[0] <= 24
    assert min(counts) >= 1
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    assert (memory.held, memory.readers) == (0, set())


async def test_a_stream_goes_on_once_another_has_left() -> None:
    memory = StreamMemory(1000)
    first, stalled = await read_by_stalled(memory, 0, 100)
    assert first > 2
    memory.add(500)  # of a third one
    _, other = await read_by_stalled(memory, 0, 100)
    before = memory.held
    memory.add(-500)
    stalled.cancel()
    for _ in range(500):
        await asyncio.sleep(0)
    assert 0 < memory.held < before
    other.cancel()
    await asyncio.gather(stalled, other, return_exceptions=True)
    assert memory.held == 0


@pytest.mark.parametrize("sent_at_most", [8])
async def test_few_requests_are_in_work_until_the_size_of_an_answer_is_known(sent_at_most: int) -> None:
    read: list[int] = []

    async def answer(number: int, streamed: StreamedRequest) -> int:
        streamed.admitted(1)
        await asyncio.Event().wait()
        return number

    call = asyncio.ensure_future(answer_in_order(numbers(100, read), answer, lambda _: asyncio.sleep(0)))
    for _ in range(500):
        await asyncio.sleep(0)
    assert len(read) == sent_at_most
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)


async def test_an_idle_stream_holds_neither_its_last_request_nor_its_last_answer() -> None:
    class Message:
        pass

    async def one_and_wait() -> AsyncIterator[Message]:
        yield Message()
        await asyncio.Event().wait()

    kept: list[weakref.ref[Message]] = []

    async def answer(message: Message, streamed: StreamedRequest) -> Message:
        result = Message()
        kept.extend((weakref.ref(message), weakref.ref(result)))
        return result

    call = asyncio.ensure_future(answer_in_order(one_and_wait(), answer, lambda _: asyncio.sleep(0)))
    for _ in range(50):
        await asyncio.sleep(0)
    assert [ref() for ref in kept] == [None, None]
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)

"""Answers of a stream come in order, however long each takes, and nothing is left working when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnserve.rpc.streaming import answer_in_order


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

        async def answer(number: int) -> int:
            nonlocal working, most
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

    async def answer(number: int) -> int:
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

    async def answer(number: int) -> int:
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

    async def answer(number: int) -> int:
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

    async def answer(number: int) -> int:
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

    async def answer(number: int) -> int:
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

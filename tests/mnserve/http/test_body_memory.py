"""Memory of the bodies of HTTP: large ones share it, small ones never wait for it, and nothing of it is lost."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import pytest

from mnserve.access.refused_calls import RefusedCalls
from mnserve.http import body_memory
from mnserve.http.body_memory import FREE_BYTES, BodyMemory, HeldBody

ServeHttp = Callable[..., Awaitable[httpx.AsyncClient]]
INFER = "/v2/models/double/infer"
JSON = b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}'


def test_large_bodies_share_the_memory_and_small_ones_go_in() -> None:
    memory = BodyMemory(1000, RefusedCalls())
    with HeldBody(memory) as first, HeldBody(memory) as second, HeldBody(memory) as small:
        assert first.grow(FREE_BYTES + 800)
        assert second.grow(FREE_BYTES)
        assert second.grow(200)
        assert not second.grow(1)
        assert memory.held == 1000
        assert small.grow(FREE_BYTES)
        assert not small.grow(1)
    assert memory.held == 0


def test_what_was_packed_gives_its_bytes_back() -> None:
    memory = BodyMemory(1000, RefusedCalls())
    with HeldBody(memory) as held:
        assert held.grow(FREE_BYTES + 300)
        assert held.grow(700)
        held.shrink(FREE_BYTES + 300)
        assert memory.held == held.counted == 0
        assert held.grow(FREE_BYTES)
        assert memory.held == 700
        held.shrink(1)
        assert memory.held == 699
    held.shrink(1)
    assert memory.held == 0


def test_a_body_that_has_ended_takes_nothing_more() -> None:
    memory = BodyMemory(1000, RefusedCalls())
    with HeldBody(memory) as held:
        assert held.grow(FREE_BYTES + 10)
    assert not held.grow(10)
    assert memory.held == 0


async def test_the_slowest_body_ends_where_others_find_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = RefusedCalls()
    memory = BodyMemory(1000, refused)

    async def receive(size: int) -> str:
        try:
            with HeldBody(memory) as held, contextlib.ExitStack() as stack:
                stack.callback(held.arrived)
                async with asyncio.timeout(60) as limit:
                    held.arrives(limit)
                    assert held.grow(size)
                    await asyncio.sleep(60)
        except TimeoutError:
            return "ended"
        return "arrived"

    small = asyncio.create_task(receive(FREE_BYTES))
    await asyncio.sleep(0.05)
    slow = asyncio.create_task(receive(FREE_BYTES + 400))
    await asyncio.sleep(0.05)
    later = asyncio.create_task(receive(FREE_BYTES + 500))
    await asyncio.sleep(0.05)
    assert "hold 900 bytes, and together they may hold 1000" in str(memory.refusal())
    await asyncio.sleep(0.05)
    assert not slow.done(), "it has its time"
    monkeypatch.setattr(body_memory, "_PATIENCE", 0.01)
    memory.refusal()
    assert await slow == "ended"
    assert memory.held == 500
    assert not later.done(), "one at a time"
    assert not small.done(), "it holds nothing that others could have"
    for task in (later, small):
        task.cancel()
    assert refused.counts["PLACES"] == 2


async def test_small_texts_that_become_large_take_no_more_than_there_is(
    serve_http: ServeHttp, double_model: Callable[..., Path]
) -> None:
    double_model()
    client = await serve_http(max_message_bytes=2**24, max_queue_bytes=2**24)
    bomb = gzip.compress(JSON[:-1] + b" " * (2**24 - 200) + b"}", 9)
    assert len(bomb) < 20_000

    async def ask(body: bytes, **headers: str) -> httpx.Response:
        return await client.post(INFER, content=body, headers=headers)

    answers = await asyncio.gather(*(ask(bomb, **{"content-encoding": "gzip"}) for _ in range(12)))
    assert {answer.status_code for answer in answers} <= {200, 503}
    assert answers[0].status_code == 200
    others = [await begin_body(client.base_url.port, 2**24) for _ in range(2)]
    refused = await ask(bomb, **{"content-encoding": "gzip"})
    assert refused.status_code == 503
    assert f"together they may hold {2**25}; try again later" in refused.json()["error"]
    assert (await ask(JSON)).status_code == 200, "a small one goes in"
    for writer in others:
        writer.close()
    async with asyncio.timeout(30):
        while (await ask(bomb, **{"content-encoding": "gzip"})).status_code != 200:
            await asyncio.sleep(0.05)


async def begin_body(port: int | None, nbytes: int) -> asyncio.StreamWriter:
    """Sends all of a body but its last byte, and waits until it has arrived."""
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (INFER.encode(), nbytes))
    writer.write(bytes(nbytes - 1))
    await writer.drain()
    await asyncio.sleep(0.5)
    return writer

"""Connections of the HTTP port: whatever a client sends or leaves out, none is held for ever."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mnserve.http.answers import HttpAnswer
from mnserve.http.listening.limits import ConnectionLimits
from mnserve.http.listening.listener import HttpListener
from mnserve.http.listening.sockets import bind_port

GET = b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n"
SECONDS = 30


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the path and the length of the body; a path of /large with much, and one of /slow slowly."""
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size += len(message.get("body", b""))
        if not message.get("more_body"):
            break
    if scope["path"] == "/slow":
        await asyncio.sleep(0.5)
    body = bytes(50_000_000) if scope["path"] == "/large" else f"{scope['path']} {size}".encode()
    await HttpAnswer(body, b"text/plain").send(send)


async def refuse(_scope: Any, _receive: Any, send: Any) -> None:
    """Answers without a look at the body."""
    await HttpAnswer(b"no", b"text/plain", 413).send(send)


@contextlib.asynccontextmanager
async def listening(application: Any = echo, **limits: Any) -> AsyncIterator[int]:
    listener = HttpListener(application, bind_port("127.0.0.1", 0, "{} {}"), ConnectionLimits(**limits))
    listener.start()
    try:
        yield listener.port
    finally:
        async with asyncio.timeout(SECONDS):
            await listener.close(0.2)


async def talk(port: int, *parts: bytes, pause: float = 0.0) -> bytes:
    """Sends parts, and returns all that comes until the server ends the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    received = b""
    try:
        async with asyncio.timeout(SECONDS):
            with contextlib.suppress(ConnectionError):
                for part in parts:
                    writer.write(part)
                    await writer.drain()
                    await asyncio.sleep(pause)
            with contextlib.suppress(ConnectionError):
                while piece := await reader.read(65_536):
                    received += piece
    finally:
        writer.close()
    return received


async def test_a_connection_is_kept_and_pipelined_requests_are_answered_in_order() -> None:
    async with listening() as port:
        second = b"POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
        answer = await talk(port, GET + second + b"GET /c HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert answer.count(b"HTTP/1.1 200 OK\r\n") == 3
    assert answer.index(b"/a 0") < answer.index(b"/b 3") < answer.index(b"/c 0")
    assert answer.count(b"\r\ndate: ") == 3
    assert b"server:" not in answer


async def test_few_requests_of_one_connection_wait() -> None:
    begun = 0

    async def count(scope: Any, receive: Any, send: Any) -> None:
        nonlocal begun
        begun += 1
        await echo(scope, receive, send)

    async with listening(count) as port:
        answer = await talk(port, GET * 5000)
    assert answer.count(b"HTTP/1.1 200 OK\r\n") == begun < 100
    assert answer.count(b"connection: close") == 1


@pytest.mark.parametrize(
    "text",
    [
        b"this is no request\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /a b HTTP/1.1\r\n\r\n",
        b"get / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET http://host HTTP/1.1\r\nHost: a\r\n\r\n",
        b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n c: folded\x00\r\n\r\n",
        b"\x16\x03\x01\x00\xa5\x01\x00\x00",
    ],
)
async def test_what_is_no_http_is_refused_once_and_without_a_log(text: bytes, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with listening() as port:
        answer = await talk(port, text)
        assert b"/a 0" in await talk(port, GET.replace(b"Host", b"Connection: close\r\nHost"))
    assert answer.count(b"HTTP/1.1 ") == 1
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b'{"error":"the request is no HTTP/1.1' in answer
    assert not [record for record in caplog.records if record.name.startswith(("uvicorn", "asyncio"))]


@pytest.mark.parametrize(
    "parts",
    [
        [b"GET /" + b"a" * 3000 + b" HTTP/1.1\r\n\r\n"],
        [b"GET / HTTP/1.1\r\n", *[b"a: " + b"b" * 90 + b"\r\n"] * 30],
        [b"GET / HTTP/1.1\r\na: ", *[b"b" * 500] * 10],
        [b"GET / HTTP/1.1\r\n", b"a" * 3000],
    ],
    ids=["line", "headers", "value", "name"],
)
async def test_a_head_that_is_too_large_is_refused_before_its_end(parts: list[bytes]) -> None:
    async with listening(head_bytes=2048) as port:
        answer = await talk(port, *parts, pause=0.01)
        assert answer.startswith(b"HTTP/1.1 431 ")
        assert b"more than 2048 bytes" in answer
        fits = b"GET /a HTTP/1.0\r\na: " + b"b" * 1500 + b"\r\n\r\n"
        assert b"/a 0" in await talk(port, fits)


@pytest.mark.parametrize("first", [300, 1900])
async def test_a_head_that_comes_in_two_parts_is_counted_once(first: int) -> None:
    head = (
        b"GET /a HTTP/1.1\r\nConnection: close\r\n"
        + b"".join(b"h%02d: %090d\r\n" % (i, i) for i in range(20))
        + b"\r\n"
    )
    assert 1900 < len(head) < 2048
    async with listening(head_bytes=2048) as port:
        assert b"/a 0" in await talk(port, head[:first], head[first:], pause=0.05)


@pytest.mark.parametrize("before", [b"", GET * 30], ids=["a body", "bodies and heads"])
async def test_a_head_behind_other_requests_is_counted_alone(before: bytes) -> None:
    body = b"POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 20000\r\n\r\n" + bytes(20_000)
    last = b"GET /c HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    async with listening(head_bytes=2048) as port:
        answer = await talk(port, body + before + last[:20], last[20:], pause=0.1)
    assert b"/b 20000" in answer
    assert b"/c 0" in answer
    assert answer.count(b" 200 OK") == answer.count(b"HTTP/1.1") == 2 + before.count(b"GET")


@pytest.mark.parametrize("ending", [b"0\r\nt: ", b"0\r\n", b"1;e=", b"1"], ids=["value", "name", "extension", "size"])
async def test_what_stands_behind_a_body_is_bounded(ending: bytes) -> None:
    head = b"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
    async with listening(head_bytes=2048) as port:
        answer = await talk(port, head + ending, *[b"0" * 500] * 10, pause=0.01)
        assert b"/a" not in answer
        assert answer.startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 400 "))
        chunks = b"".join(b"1\r\na\r\n" for _ in range(3000))
        assert b"/a 3003" in await talk(
            port, head.replace(b"/1.1", b"/1.1\r\nConnection: close") + chunks, b"0\r\nt: 1\r\n\r\n"
        )


async def test_empty_lines_do_not_hold_a_connection() -> None:
    async with listening(keep_alive_seconds=1.0) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GET)
        async with asyncio.timeout(SECONDS):
            await reader.readuntil(b"/a 0")
            with contextlib.suppress(ConnectionError):
                while not reader.at_eof():
                    writer.write(b"\r\n")
                    await writer.drain()
                    await asyncio.sleep(0.2)
        writer.close()


async def test_a_client_that_leaves_is_noticed_with_a_request_behind() -> None:
    left = asyncio.Event()

    async def wait(scope: Any, receive: Any, _send: Any) -> None:
        assert scope["path"] == "/a", "the request behind is not begun"
        while (await receive())["type"] != "http.disconnect":
            pass
        left.set()

    async with listening(wait) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GET + GET.replace(b"/a", b"/b"))
        await asyncio.sleep(0.2)
        writer.close()
        async with asyncio.timeout(SECONDS):
            await left.wait()


async def test_answers_that_nobody_reads_are_bounded_in_all() -> None:
    async with listening(unread_bytes=120_000_000) as port:
        clients = []
        for _ in range(3):
            clients.append(await asyncio.open_connection("127.0.0.1", port, limit=1024))
            clients[-1][1].write(b"GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            await asyncio.sleep(0.5)
        received = []
        for reader, writer in clients:
            received.append(0)
            with contextlib.suppress(ConnectionError):
                while piece := await reader.read(2**20):
                    received[-1] += len(piece)
            writer.close()
    assert received[0] < 50_000_000, "the one that was there first is ended"
    assert all(size > 50_000_000 for size in received[1:])


async def test_an_offer_of_another_protocol_is_answered_in_this_one() -> None:
    offer = GET[:-2] + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: a\r\n\r\n"
    async with listening() as port:
        answer = await talk(port, offer + offer, GET.replace(b"Host", b"Connection: close\r\nHost"))
    assert answer.count(b"HTTP/1.1 200 OK") == 3
    assert answer.count(b"connection: close") == 1


@pytest.mark.parametrize("pieces", [1, 2, 7, 300], ids=["whole", "halves", "sevenths", "bytes"])
@pytest.mark.parametrize(
    "length", [b"Content-Length: 5\r\n\r\nabcde", b"Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n"]
)
async def test_the_body_behind_such_an_offer_is_read(length: bytes, pieces: int) -> None:
    """As Java's client and ``curl --http2`` send it."""
    offer = (
        b"POST /a HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: a\r\n"
    )
    data = (offer + length) * 2 + GET.replace(b"Host", b"Connection: close\r\nHost")
    step = -(-len(data) // pieces)
    async with listening() as port:
        answer = await talk(port, *(data[i : i + step] for i in range(0, len(data), step)), pause=0.002)
    assert answer.count(b"/a 5") == 2
    assert answer.endswith(b"/a 0")


async def test_a_client_that_is_slow_and_keeps_its_end_open_ends_no_limits(caplog: pytest.LogCaptureFixture) -> None:
    async with listening(head_seconds=0.5) as port:
        for _ in range(2):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /a HTTP/1.1\r\n")
            async with asyncio.timeout(SECONDS):
                answer = await reader.read()
            assert answer.count(b"HTTP/1.1 408 ") == 1
            await asyncio.sleep(1)  # more looks at it
            with contextlib.suppress(ConnectionError):
                async with asyncio.timeout(SECONDS):
                    while True:  # until the server has closed its end, too
                        writer.write(b"a")
                        await writer.drain()
                        await asyncio.sleep(0.05)
            writer.close()
    assert not caplog.records


@pytest.mark.parametrize("broken", [b"zz\r\n", b"0\r\nt: " + b"a" * 3000], ids=["chunk", "trailer"])
async def test_a_broken_request_behind_others_gets_no_part_in_their_answers(broken: bytes) -> None:
    slow = b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n"
    last = b"POST /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with listening(head_bytes=2048) as port:
        answer = await talk(port, slow + GET + last + broken[:5], broken[5:], pause=0.05)
        assert answer.count(b"HTTP/1.1 ") == answer.count(b"HTTP/1.1 200 OK") == 2
        assert answer.index(b"/slow 0") < answer.index(b"/a 0")
        assert answer.endswith(b"/a 0")
        alone = await talk(port, last + broken[:5], broken[5:], pause=0.05)
        assert alone.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 431 "))
        assert alone.count(b"HTTP/1.1 ") == 1
        behind = await talk(port, slow + b"no request\r\n\r\n")
        assert behind.count(b"HTTP/1.1 ") == 1
        assert behind.endswith(b"/slow 0")


async def test_an_application_does_not_answer_what_was_refused(caplog: pytest.LogCaptureFixture) -> None:
    async def hasty(_scope: Any, _receive: Any, send: Any) -> None:
        await asyncio.sleep(0.1)
        await HttpAnswer(b"late", b"text/plain").send(send)

    async with listening(hasty) as port:
        answer = await talk(port, b"POST /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", pause=0.3)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"late" not in answer
    assert not caplog.records


async def test_a_client_that_does_not_read_its_answer_is_cut_off() -> None:
    async with listening(idle_seconds=0.5) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
        await asyncio.sleep(2)
        received = 0
        with contextlib.suppress(ConnectionError):
            while piece := await reader.read(65_536):
                received += len(piece)
        writer.close()
    assert received < 50_000_000


async def test_a_client_that_reads_slowly_gets_all_of_its_answer() -> None:
    async with listening(idle_seconds=1.0) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
        writer.write(b"GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        received = 0
        async with asyncio.timeout(SECONDS):
            while piece := await reader.read(2**22):
                received += len(piece)
                await asyncio.sleep(0.02)
        writer.close()
    assert received > 50_000_000


async def test_the_rest_of_a_refused_body_is_read_so_that_its_client_gets_the_answer() -> None:
    head = b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\nConnection: close\r\n\r\n"
    async with listening(refuse, idle_seconds=1.0) as port:
        kept = head.replace(b"Connection: close\r\n", b"")
        answer = await talk(
            port, kept, *[bytes(500_000)] * 6, b"GET /b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        )
        assert answer.count(b"HTTP/1.1 413 ") == 2
        endless = await talk(port, kept, b"a", pause=0.1)  # the rest never comes
        assert endless.count(b"HTTP/1.1 413 ") == 1


async def test_closing_lets_answers_out_and_ends_the_others() -> None:
    listener = HttpListener(echo, bind_port("127.0.0.1", 0, "{} {}"), ConnectionLimits())
    listener.start()
    answering = asyncio.create_task(talk(listener.port, b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n"))
    silent = asyncio.create_task(talk(listener.port))
    idle = asyncio.create_task(talk(listener.port, GET))
    await asyncio.sleep(0.2)
    await listener.close(10)
    assert b"/slow 0" in await answering
    assert await silent == b""
    assert (await idle).count(b"HTTP/1.1 200") == 1
    with pytest.raises(ConnectionRefusedError):
        await talk(listener.port, GET)


async def test_closing_ends_what_takes_too_long_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    async def never(_scope: Any, _receive: Any, _send: Any) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(1000)

    listener = HttpListener(never, bind_port("127.0.0.1", 0, "{} {}"), ConnectionLimits())
    listener.start()
    waiting = asyncio.create_task(talk(listener.port, GET))
    await asyncio.sleep(0.2)
    async with asyncio.timeout(SECONDS):
        await listener.close(0.2)
    assert await waiting == b""
    assert not caplog.records

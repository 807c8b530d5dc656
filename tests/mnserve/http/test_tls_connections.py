"""Connections of TLS: the same limits as without, whatever a client does."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from mnserve.access.settings import SecuritySettings
from mnserve.http.answers import HttpAnswer
from mnserve.http.listening.limits import ConnectionLimits
from mnserve.http.listening.listener import HttpListener
from mnserve.http.listening.sockets import bind_port
from mnserve.http.listening.tls import server_context

SECONDS = 30
LARGE = 40_000_000


@contextlib.asynccontextmanager
async def listening(certificates: Any, client_ca: str | None = None, **limits: Any) -> AsyncIterator[HttpListener]:
    async def answer(scope: Any, _receive: Any, send: Any) -> None:
        await HttpAnswer(bytes(LARGE) if scope["path"] == "/large" else b"{}").send(send)

    certificate, key = certificates.issue()
    security = SecuritySettings(tls_certificate=certificate, tls_key=key, tls_client_ca=client_ca)
    sockets = bind_port("127.0.0.1", 0, "{} {}")
    listener = HttpListener(answer, sockets, ConnectionLimits(**limits), server_context(security))
    listener.start()
    try:
        yield listener
    finally:
        async with asyncio.timeout(SECONDS):
            await listener.close(0.2)


async def ask_for(port: int, ca: str, head: bytes, **options: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    context = ssl.create_default_context(cafile=ca)
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, **options)
    writer.write(head)
    return reader, writer


async def read_all(reader: asyncio.StreamReader, pause: float = 0.0) -> int:
    received = 0
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while piece := await reader.read(2**20):
            received += len(piece)
            await asyncio.sleep(pause)
    return received


async def test_answers_that_nobody_reads_are_bounded(certificates: Any) -> None:
    async with listening(certificates, idle_seconds=0.5) as listener:
        reader, writer = await ask_for(
            listener.port, certificates.ca, b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n", limit=1024
        )
        await asyncio.sleep(2)
        assert await read_all(reader) < LARGE
        writer.close()
    async with listening(certificates, unread_bytes=LARGE // 2) as listener:
        reader, writer = await ask_for(
            listener.port, certificates.ca, b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n", limit=1024
        )
        await asyncio.sleep(1.5)
        assert await read_all(reader) < LARGE
        writer.close()


@pytest.mark.parametrize(
    "head", [b"GET /large HTTP/1.0\r\n\r\n", b"GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"]
)
async def test_a_client_that_reads_slowly_gets_all_of_its_answer(certificates: Any, head: bytes) -> None:
    async with listening(certificates, idle_seconds=1.0) as listener:
        reader, writer = await ask_for(listener.port, certificates.ca, head, limit=2**20)
        async with asyncio.timeout(SECONDS):
            assert await read_all(reader, 0.08) > LARGE
        writer.close()


async def test_a_head_that_does_not_come_is_refused_once(certificates: Any, caplog: pytest.LogCaptureFixture) -> None:
    async with listening(certificates, head_seconds=0.5) as listener:
        reader, writer = await ask_for(listener.port, certificates.ca, b"GET /a HTTP/1.1\r\n")
        async with asyncio.timeout(SECONDS):
            answer = await reader.read()
        assert answer.count(b"HTTP/1.1 408 ") == 1
        writer.close()
    assert not caplog.records


async def test_a_session_is_not_resumed_once_its_authority_is_gone(
    certificates: Any, other_certificates: Any, tmp_path: Path
) -> None:
    authority = tmp_path / "clients.pem"
    authority.write_bytes(Path(other_certificates.ca).read_bytes())
    context = ssl.create_default_context(cafile=certificates.ca)
    context.load_cert_chain(*other_certificates.issue("client"))
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # whose session is there before anything is read

    def connect(port: int, session: ssl.SSLSession | None) -> tuple[ssl.SSLSession, bool]:
        import socket

        with (
            socket.create_connection(("127.0.0.1", port), SECONDS) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as connection,
        ):
            connection.sendall(b"GET /a HTTP/1.0\r\n\r\n")
            assert b"{}" in b"".join(iter(lambda: connection.recv(4096), b""))
            assert connection.session is not None
            return connection.session, bool(connection.session_reused)

    async with listening(certificates, str(authority)) as listener:
        session, _ = await asyncio.to_thread(connect, listener.port, None)
        session, reused = await asyncio.to_thread(connect, listener.port, session)
        assert reused, "as long as nothing has changed"
        authority.write_bytes(Path(certificates.ca).read_bytes())
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.to_thread(connect, listener.port, session)


@pytest.mark.parametrize(("handshake", "grace"), [(0.5, 60.0), (60.0, 0.1)], ids=["in time", "for others"])
async def test_a_handshake_that_does_not_come_takes_no_place_for_ever(
    handshake: float, grace: float, certificates: Any
) -> None:
    async with listening(certificates, connections=2, handshake_seconds=handshake, grace_seconds=grace) as listener:
        silent = [await asyncio.open_connection("127.0.0.1", listener.port) for _ in range(4)]
        async with httpx.AsyncClient(verify=ssl.create_default_context(cafile=certificates.ca), timeout=20) as client:
            assert (await client.get(f"https://127.0.0.1:{listener.port}/a")).status_code == 200
        for _, writer in silent:
            writer.close()

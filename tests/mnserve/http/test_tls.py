"""TLS of the HTTP port: the certificates of the gRPC port, also new ones, and those of clients."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from mnserve.access.settings import SecuritySettings

ServeHttp = Callable[..., Awaitable[httpx.AsyncClient]]
LIVE = "/v2/health/live"


def trusting(ca: str, identity: tuple[str, str] | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca)
    if identity is not None:
        context.load_cert_chain(*identity)
    return context


async def ask(url: str, context: ssl.SSLContext) -> int:
    async with httpx.AsyncClient(verify=context, timeout=20) as client:
        return (await client.get(url + LIVE)).status_code


async def test_new_certificates_are_used_without_a_restart(
    serve_http: ServeHttp, double_model: Callable[..., Path], certificates: Any, other_certificates: Any
) -> None:
    double_model()
    certificate, key = certificates.issue()
    client = await serve_http(security=SecuritySettings(tls_certificate=certificate, tls_key=key))
    url = str(client.base_url).rstrip("/")
    assert url.startswith("https://")
    assert await ask(url, trusting(certificates.ca)) == 200
    with pytest.raises(httpx.ConnectError):
        await ask(url, trusting(other_certificates.ca))
    with pytest.raises(httpx.HTTPError):
        await ask(url.replace("https", "http"), trusting(certificates.ca))
    for old, new in zip((certificate, key), other_certificates.issue(), strict=True):
        Path(old).write_bytes(Path(new).read_bytes())
    assert await ask(url, trusting(other_certificates.ca)) == 200
    with pytest.raises(httpx.ConnectError):
        await ask(url, trusting(certificates.ca))
    Path(key).write_bytes(b"damaged")
    assert await ask(url, trusting(other_certificates.ca)) == 200, "the old one stays in force"


async def test_callers_need_certificates_where_an_authority_is_named(
    serve_http: ServeHttp, double_model: Callable[..., Path], certificates: Any, other_certificates: Any
) -> None:
    double_model()
    certificate, key = certificates.issue()
    security = SecuritySettings(tls_certificate=certificate, tls_key=key, tls_client_ca=other_certificates.ca)
    url = str((await serve_http(security=security)).base_url).rstrip("/")
    good, bad = other_certificates.issue("client"), certificates.issue("stranger")
    assert await ask(url, trusting(certificates.ca, good)) == 200
    for identity in (None, bad):
        with pytest.raises(httpx.HTTPError):
            await ask(url, trusting(certificates.ca, identity))
    Path(other_certificates.ca).write_bytes(Path(certificates.ca).read_bytes())  # now strangers may, and others not
    assert await ask(url, trusting(certificates.ca, bad)) == 200
    with pytest.raises(httpx.HTTPError):
        await ask(url, trusting(certificates.ca, good))


@pytest.mark.parametrize(("handshake", "grace"), [(0.5, 60.0), (60.0, 0.1)], ids=["in time", "for others"])
async def test_a_handshake_that_does_not_come_takes_no_place_for_ever(
    handshake: float, grace: float, certificates: Any
) -> None:
    from mnserve.http.answers import HttpAnswer
    from mnserve.http.listening.limits import ConnectionLimits
    from mnserve.http.listening.listener import HttpListener
    from mnserve.http.listening.sockets import bind_port
    from mnserve.http.listening.tls import server_context

    async def answer(_scope: Any, _receive: Any, send: Any) -> None:
        await HttpAnswer(b"{}").send(send)

    certificate, key = certificates.issue()
    context = server_context(SecuritySettings(tls_certificate=certificate, tls_key=key))
    limits = ConnectionLimits(connections=2, handshake_seconds=handshake, grace_seconds=grace)
    listener = HttpListener(answer, bind_port("127.0.0.1", 0, "{} {}"), limits, context)
    listener.start()
    silent = [await asyncio.open_connection("127.0.0.1", listener.port) for _ in range(4)]
    assert await ask(f"https://127.0.0.1:{listener.port}", trusting(certificates.ca)) == 200
    for _, writer in silent:
        writer.close()
    await listener.close(0.2)

"""TLS of the HTTP port: the certificates of the gRPC port, also new ones, and those of clients."""

from __future__ import annotations

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

"""A console, called over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest

from mnserve.starting.addresses import Addresses


@pytest.fixture
async def open_console(
    start_server: Callable[..., Awaitable[Addresses]],
) -> AsyncIterator[Callable[..., Awaitable[httpx.AsyncClient]]]:
    """Starts a server with a console and these settings; returns a client of its HTTP port."""
    clients: list[httpx.AsyncClient] = []

    async def start(**fields: Any) -> httpx.AsyncClient:
        addresses = await start_server(**({"console": True, "http_port": 0} | fields))
        assert addresses.http is not None
        clients.append(httpx.AsyncClient(base_url=addresses.http, timeout=60))
        return clients[-1]

    yield start
    for client in clients:
        await client.aclose()

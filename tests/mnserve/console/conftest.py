"""A console in this process, called over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from mnserve.rpc.front_end import StopTimes
from mnserve.server import Server
from mnserve.settings import ServeSettings


@pytest.fixture
async def open_console(repository: Path) -> AsyncIterator[Callable[..., Awaitable[httpx.AsyncClient]]]:
    """Starts a server with a console and these settings; returns a client of its HTTP port."""
    started: list[tuple[Server, httpx.AsyncClient]] = []

    async def start(**fields: Any) -> httpx.AsyncClient:
        given = {"console": True, "grpc_port": 0, "metrics_port": 0, "http_port": 0, "intra_op_threads": 1}
        settings = ServeSettings(repository=str(repository), **(given | fields))
        server = Server(settings, stop_times=StopTimes(refusal=0.0, last_answers=0.2))
        addresses = await server.start()
        assert addresses.http is not None
        started.append((server, httpx.AsyncClient(base_url=addresses.http, timeout=60)))
        return started[-1][1]

    yield start
    for server, client in started:
        await client.aclose()
        await server.stop()

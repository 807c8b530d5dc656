"""Sockets of the HTTP port, and the server of uvicorn on them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Sequence
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

_BACKLOG: Final = 1024
_HANDSHAKE_SECONDS: Final = 10.0


class HttpListener:
    """Serves an application on sockets, in the event loop of its caller. ``start`` once, then ``close`` once.

    ``uvicorn.Server`` would take the signals of the process, and end it where it cannot start.

    Args:
        application: Application of ASGI.
        sockets: Bound sockets.
        tls: Encrypts the connections; None for plain ones.
    """

    def __init__(self, application: Any, sockets: Sequence[socket.socket], tls: ssl.SSLContext | None = None) -> None:
        self._config = uvicorn.Config(
            application,
            http=HttpToolsProtocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
        )
        self._sockets, self._tls = sockets, tls
        self._state = ServerState()
        self._servers: list[asyncio.Server] = []

    async def start(self) -> None:
        """Listens."""
        self._config.load()
        loop = asyncio.get_running_loop()
        for one in self._sockets:
            server = await loop.create_server(
                lambda: HttpToolsProtocol(self._config, self._state, {}),
                sock=one,
                ssl=self._tls,
                backlog=_BACKLOG,
                ssl_handshake_timeout=None if self._tls is None else _HANDSHAKE_SECONDS,
            )
            self._servers.append(server)

    async def close(self, seconds: float) -> None:
        """Takes no new connections, has those that answer end with their answers, and ends the others.

        Args:
            seconds: Time for the answers.
        """
        for server in self._servers:
            server.close()
        for connection in list(self._state.connections):
            connection.shutdown()
        if self._state.tasks:
            await asyncio.wait(self._state.tasks, timeout=seconds)
        for task in self._state.tasks:
            task.cancel()
        for connection in list(self._state.connections):
            with contextlib.suppress(AttributeError):
                connection.transport.abort()
        await asyncio.sleep(0)

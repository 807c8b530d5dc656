"""Listens on sockets, and serves an application to their connections with uvicorn's protocol.

``uvicorn.Server`` would take the signals of the process, end the process where it cannot start, and accept any number
of connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any, Final

from uvicorn.server import ServerState

from mnserve.http.listening.connections import Connection, make_config
from mnserve.http.listening.limits import ConnectionLimits

_log = logging.getLogger(__name__)

_BACKLOG: Final = 1024
"""Connections that may wait to be accepted; the system may allow fewer (net.core.somaxconn)."""
_TICK: Final = 0.25
_LOOK_SECONDS: Final = 0.05
_EXHAUSTED_SECONDS: Final = 0.2
"""Time until another connection is accepted after the system had no file for one."""


@dataclass(slots=True)
class _Accepted:
    """Place of an accepted socket.

    Attributes:
        since: Monotonic time at which it was accepted.
        connecting: Task that makes its connection.
        connection: Its connection; None until the handshake is done.
    """

    since: float
    connecting: asyncio.Task[None] | None = None
    connection: Connection | None = None

    @property
    def is_silent(self) -> bool:
        """True while there is no request to answer."""
        return self.connection is None or self.connection.waiting

    @property
    def silent_since(self) -> float:
        """Monotonic time since which that may be so."""
        return self.since if self.connection is None else self.connection.silent_since

    def end(self) -> None:
        """Ends the connection, or the handshake, at once."""
        if self.connection is not None:
            self.connection.end()
        elif self.connecting is not None:
            self.connecting.cancel()


class HttpListener:
    """Serves an application on sockets, in the event loop of its caller. ``start`` once, then ``close`` once.

    Args:
        application: Application of ASGI.
        sockets: Bound sockets, which do not block.
        limits: Limits of the connections.
        tls: Returns the TLS of the next connection; None for plain ones.
    """

    def __init__(
        self,
        application: Any,
        sockets: Sequence[socket.socket],
        limits: ConnectionLimits,
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        self._config = make_config(application, limits)
        self._sockets, self._limits, self._tls = sockets, limits, tls
        self.port: int = sockets[0].getsockname()[1]
        """The port."""
        self._state = ServerState()
        self._open: dict[socket.socket, _Accepted] = {}
        """Accepted sockets."""
        self._room = asyncio.Event()
        self._accepting: set[asyncio.Task[None]] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Listens."""
        self._config.load()
        self._update_date()
        for one in self._sockets:
            one.listen(_BACKLOG)
            _begin(self._accept(one), self._accepting)
        _begin(self._look_after(), self._tasks)

    async def close(self, seconds: float) -> None:
        """Takes no new connections, lets those that answer end with their answers, and ends the others.

        Args:
            seconds: Time for the answers.
        """
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        for one in self._sockets:
            one.close()
        for connection in self._connections:
            connection.shutdown()
        if self._state.tasks:
            await asyncio.wait(self._state.tasks, timeout=seconds)
        deadline = time.monotonic() + seconds
        while self._open and time.monotonic() < deadline and any(map(_has_unread, self._connections)):
            await asyncio.sleep(_LOOK_SECONDS)
        for connection in self._connections:
            connection.end()
        await asyncio.sleep(0)  # their requests hear of it
        for task in self._tasks | self._state.tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, *self._state.tasks, return_exceptions=True)

    @property
    def _connections(self) -> list[Connection]:
        return [place.connection for place in self._open.values() if place.connection is not None]

    async def _accept(self, listening: socket.socket) -> None:
        while True:
            await self._wait_for_room()
            try:
                accepted, _ = listening.accept()
            except BlockingIOError:
                await _readable(listening)
                continue
            except OSError as error:
                _log.warning("a connection could not be accepted: %s", error.strerror or error)
                await asyncio.sleep(_EXHAUSTED_SECONDS)
                continue
            self._open[accepted] = place = _Accepted(time.monotonic())
            place.connecting = _begin(self._connect(accepted), self._tasks)
            await asyncio.sleep(0)  # others have their turn, however many wait

    async def _connect(self, accepted: socket.socket) -> None:
        def make() -> Connection:
            return _Placed(self, accepted, self._config, self._state, self._limits)

        options: dict[str, Any] = {}
        try:
            if self._tls is not None:
                options = {
                    "ssl": self._tls(),
                    "ssl_handshake_timeout": self._limits.handshake_seconds,
                    "ssl_shutdown_timeout": self._limits.answer_seconds,  # which begins before the answer has left
                }
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.get_running_loop().connect_accepted_socket(make, accepted, **options)
        except (OSError, asyncio.CancelledError) as error:  # no handshake, or the client has left
            self.ended(accepted)
            accepted.close()
            if isinstance(error, asyncio.CancelledError):
                raise
            _log.debug("a connection was not made: %s", error)

    def made(self, accepted: socket.socket, connection: Connection) -> None:
        """Notes a connection."""
        if (place := self._open.get(accepted)) is None:  # it was ended meanwhile
            connection.end()
        else:
            place.connection = connection

    def ended(self, accepted: socket.socket) -> None:
        """Frees the place of a connection."""
        self._open.pop(accepted, None)
        self._room.set()

    async def _wait_for_room(self) -> None:
        """Waits for a place; ends the connection that is silent for longest, once it had its time."""
        while len(self._open) >= self._limits.connections:
            self._room.clear()
            silent = [place for place in self._open.values() if place.is_silent]
            oldest = min(silent, key=lambda place: place.silent_since, default=None)
            if oldest is not None and time.monotonic() - oldest.silent_since > self._limits.grace_seconds:
                oldest.end()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._room.wait()

    async def _look_after(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            self._update_date()
            now = time.monotonic()
            for connection in self._connections:
                try:
                    connection.check(now)
                except Exception:  # noqa: BLE001 (the others have to be looked after, too)
                    _log.exception("a connection could not be looked after, and ends")
                    connection.end()
            self._bound_unread()

    def _bound_unread(self) -> None:
        """Ends the connections that are being read for longest while clients leave too much unread."""
        slow = sorted(filter(_has_unread, self._connections), key=lambda one: one.unread_since, reverse=True)
        unread = sum(connection.unread for connection in slow)
        while unread > self._limits.unread_bytes:
            connection = slow.pop()
            unread -= connection.unread
            connection.end()

    def _update_date(self) -> None:
        self._state.default_headers = [(b"date", formatdate(usegmt=True).encode())]


class _Placed(Connection):
    """A connection that frees its place once it has ended."""

    def __init__(self, listener: HttpListener, accepted: socket.socket, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._listener, self._accepted = listener, accepted

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._listener.made(self._accepted, self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._listener.ended(self._accepted)
        super().connection_lost(exc)


def _has_unread(connection: Connection) -> bool:
    return connection.unread > 0


def _begin(work: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]]) -> asyncio.Task[None]:
    task = asyncio.get_running_loop().create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task


async def _readable(listening: socket.socket) -> None:
    """Waits until a connection can be accepted.

    ``sock_accept`` of the loop would lose, and leave open, what it has accepted in the moment that it is cancelled.
    """
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(listening, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(listening)

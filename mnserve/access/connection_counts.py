"""Count of the connections of a process, told again and again."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Final

from mnserve.access.connection_balance import count_connections
from mnserve.access.connections import each_socket

_SETTLE_SECONDS: Final = 0.02
"""Time for gRPC to take in a connection that has come."""
_LOOK_SECONDS: Final = 0.25
"""Time between two looks, for connections that have ended."""


class ConnectionCounts:
    """Watches a port of this process, on the running event loop.

    Args:
        port: TCP port that this process listens on.
        tell: Called with the number of connections, soon after one has come, and a few times a second.
    """

    def __init__(self, port: int, tell: Callable[[int], None]) -> None:
        self._port, self._tell = port, tell
        self._loop = asyncio.get_running_loop()
        self._listeners: list[int] = []
        each_socket(port, self._add, listening=True)
        self._timer = self._loop.call_later(_LOOK_SECONDS, self._look)
        self._watch()

    def close(self) -> None:
        """Ends the watch."""
        self._timer.cancel()
        for listener in self._listeners:
            self._loop.remove_reader(listener)
            os.close(listener)
        self._listeners.clear()

    def _add(self, listener: socket.socket) -> None:
        self._listeners.append(os.dup(listener.fileno()))

    def _watch(self) -> None:
        for listener in self._listeners:
            self._loop.add_reader(listener, self._arrived)

    def _arrived(self) -> None:
        """A connection waits for gRPC; the watch rests meanwhile, as it would be called on and on."""
        for listener in self._listeners:
            self._loop.remove_reader(listener)
        self._timer.cancel()
        self._timer = self._loop.call_later(_SETTLE_SECONDS, self._look)

    def _look(self) -> None:
        self._tell(count_connections(self._port))
        self._timer = self._loop.call_later(_LOOK_SECONDS, self._look)
        self._watch()

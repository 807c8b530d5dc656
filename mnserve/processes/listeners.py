"""Front ends that listen on the port of a server, one after the other, and their shares of its connections."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from mnserve.access.connection_balance import ConnectionBalance

SILENT_SECONDS: Final = 3.0
"""Time after which a front end that tells nothing gets no more connections than the others."""


class Listener(Protocol):
    """Place of a front end."""

    @property
    def number(self) -> int:
        """Number of the place."""

    def begin_to_listen(self) -> None:
        """Has its process listen."""

    def steer(self, shares: Sequence[float] | None) -> None:
        """Has its process tell the kernel how new connections are shared."""


class Listeners:
    """Knows in which order front ends have begun to listen, as the kernel does, and who has how many connections.

    Args:
        clock: Monotonic time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heard: dict[int, float] = {}
        self._balance = ConnectionBalance()
        self._waiting: deque[Listener] = deque()
        self._listening: list[Listener] = []
        self._shares: tuple[float, ...] | None = None

    def add(self, front_end: Listener) -> None:
        """Has a front end listen, once those before it do."""
        self._waiting.append(front_end)
        if len(self._waiting) == 1:
            front_end.begin_to_listen()

    def listens(self, front_end: Listener) -> None:
        """Notes that a front end has begun to listen."""
        self._balance.joined(front_end.number)
        self._heard[front_end.number] = self._clock()
        self._listening.append(front_end)
        self._leave_line(front_end)
        self._steer()

    def lost(self, front_end: Listener) -> None:
        """Notes that the process of a front end has ended."""
        if front_end in self._listening:
            self._listening.remove(front_end)
            self._balance.left(front_end.number)
            self._steer()
        self._leave_line(front_end)

    def report(self, front_end: Listener, connections: int) -> None:
        """Notes how many connections a front end has."""
        self._balance.report(front_end.number, connections)
        self._heard[front_end.number] = self._clock()
        self._steer()

    def _leave_line(self, front_end: Listener) -> None:
        if front_end not in self._waiting:
            return
        first = self._waiting[0] is front_end
        self._waiting.remove(front_end)
        if first and self._waiting:
            self._waiting[0].begin_to_listen()

    def _steer(self) -> None:
        now = self._clock()
        silent = [number for number, heard in self._heard.items() if now - heard > SILENT_SECONDS]
        shares = self._balance.shares(silent)  # who tells nothing may be stuck
        if shares != self._shares and self._listening:
            self._shares = shares
            self._listening[0].steer(shares)  # the socket of one is enough

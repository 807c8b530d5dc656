"""Spread of connections over processes that listen on one port: the next one goes to who has the fewest.

Linux picks one of the sockets that share a port (SO_REUSEPORT) by a hash of the addresses, so two clients may well meet
at the same process, for as long as they stay connected. A program of the socket filter picks in its place. Connections
that arrive while all have the same number are left to the hash, as those of a burst would all go to one process.
"""

from __future__ import annotations

import contextlib
import ctypes
import socket
import struct
from typing import Final

from mnserve.access.connections import each_socket

_ATTACH: Final = 51
"""``SO_ATTACH_REUSEPORT_CBPF`` of Linux, which the module socket has no name for."""
_DETACH: Final = 68
"""``SO_DETACH_REUSEPORT_BPF``."""
_RETURN: Final = 0x06
"""Instruction of the socket filter: return a constant, here the place of a socket."""


class ConnectionBalance:
    """Finds the process that the next connection should go to.

    The kernel counts the sockets of a port in the order in which they began to listen; the last one takes the place of
    one that is closed.
    """

    def __init__(self) -> None:
        self._order: list[int] = []
        self._counts: dict[int, int] = {}

    def joined(self, process: int) -> None:
        """Notes that a process has begun to listen, after all others."""
        self._order.append(process)
        self._counts[process] = 0

    def left(self, process: int) -> None:
        """Notes that a process has ended."""
        if process not in self._counts:
            return
        del self._counts[process]
        place, last = self._order.index(process), self._order.pop()
        if last != process:
            self._order[place] = last

    def report(self, process: int, connections: int) -> None:
        """Notes how many connections a process has."""
        if process in self._counts:
            self._counts[process] = connections

    def process_at(self, place: int) -> int:
        """Returns the process at a place."""
        return self._order[place]

    @property
    def place(self) -> int | None:
        """Place of the process with the fewest connections; None where all have the same number."""
        counts = [self._counts[process] for process in self._order]
        if not counts or min(counts) == max(counts):
            return None
        return counts.index(min(counts))


def steer_connections(port: int, place: int | None) -> None:
    """Has new connections go to one of the processes that share a port, where the system can do that.

    Args:
        port: TCP port that this process listens on.
        place: Place of the process; None leaves the choice to the system.
    """
    program = ctypes.create_string_buffer(struct.pack("HBBI", _RETURN, 0, 0, place or 0))
    filter_program = struct.pack("HL", 1, ctypes.addressof(program))

    def steer(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            if place is None:
                listener.setsockopt(socket.SOL_SOCKET, _DETACH, 0)
            else:
                listener.setsockopt(socket.SOL_SOCKET, _ATTACH, filter_program)

    each_socket(port, steer, listening=True)


def count_connections(port: int) -> int:
    """Counts the connections of a TCP port of this process."""
    found: list[socket.socket] = []
    each_socket(port, found.append, listening=False)
    return len(found)

"""Spread of connections over processes that listen on one port: who has fewer gets more of the next ones.

Linux picks one of the sockets that share a port (SO_REUSEPORT) by a hash of the addresses, so two clients may well meet
at the same process, for as long as they stay connected. A program of the socket filter picks in its place, at random
and with a bias. Without chance, the connections of a burst would all go to one process.
"""

from __future__ import annotations

import contextlib
import ctypes
import socket
import struct
from collections.abc import Collection, Sequence
from itertools import accumulate
from typing import Final

from mnserve.access.connections import each_socket

_ATTACH: Final = 51
"""``SO_ATTACH_REUSEPORT_CBPF`` of Linux, which the module socket has no name for."""
_DETACH: Final = 68
"""``SO_DETACH_REUSEPORT_BPF``."""
_LOAD_RANDOM: Final = (0x20, 0, 0, 0xFFFFF000 + 56)
"""Instruction of the socket filter: load a random number of 32 bits."""
_SKIP_IF_ABOVE: Final = 0x25
"""Instruction: skip some instructions if the number is above a constant."""
_RETURN: Final = 0x06
"""Instruction: return a constant, here the place of a socket."""
_LARGEST: Final = 2**32 - 1
_BIAS: Final = 3
"""How many times less likely each connection more makes a process."""


class ConnectionBalance:
    """Finds the shares of the next connections.

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

    def shares(self, silent: Collection[int] = ()) -> tuple[float, ...] | None:
        """Computes the share of each place; None where all are alike.

        Args:
            silent: Processes whose numbers are not up to date. They get no more than the one with the most connections.
        """
        counts = [self._counts[process] for process in self._order]
        if not counts:
            return None
        counts = [
            max(counts) if process in silent else count for process, count in zip(self._order, counts, strict=True)
        ]
        if min(counts) == max(counts):
            return None
        weights = [float(_BIAS) ** (min(counts) - count) for count in counts]
        return tuple(weight / sum(weights) for weight in weights)


def steer_connections(port: int, shares: Sequence[float] | None) -> None:
    """Spreads new connections over the processes that share a port, where the system can do that.

    Args:
        port: TCP port that this process listens on.
        shares: Share of each place; None leaves the choice to the system.
    """
    instructions = [_LOAD_RANDOM]
    up_to = list(accumulate(shares or ()))[:-1]
    for place, share in enumerate(up_to):
        most = min(_LARGEST, round(share * _LARGEST))
        instructions += ((_SKIP_IF_ABOVE, 1, 0, most), (_RETURN, 0, 0, place))
    instructions.append((_RETURN, 0, 0, len(up_to)))
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *instruction) for instruction in instructions))
    filter_program = struct.pack("HL", len(instructions), ctypes.addressof(program))

    def steer(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            if shares is None:
                listener.setsockopt(socket.SOL_SOCKET, _DETACH, 0)
            else:
                listener.setsockopt(socket.SOL_SOCKET, _ATTACH, filter_program)

    each_socket(port, steer, listening=True)


def count_connections(port: int) -> int:
    """Counts the connections of a TCP port of this process."""
    found: list[socket.socket] = []
    each_socket(port, found.append, listening=False)
    return len(found)

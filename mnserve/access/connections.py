"""Connections of a TCP port of this process, found among its open files.

gRPC for Python cannot tell clients to go elsewhere (GOAWAY) before it stops. While it stops it cuts off every call that
arrives as CANCELLED, which callers take for their own doing. A connection that ends means UNAVAILABLE to them.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

_OPEN_FILES: Final = Path("/proc/self/fd")
_HOPS: Final = 255
_MIN_HOPS: Final = ((socket.IPPROTO_IP, 21), (socket.IPPROTO_IPV6, 73))
"""``IP_MINTTL`` and ``IPV6_MINHOPCOUNT`` of Linux, which the module socket has no names for."""


def refuse_connections(port: int) -> None:
    """Lets no new connection in on a port. gRPC goes on listening: it logs an error where its socket is closed.

    Packets with fewer hops left than anyone sends are dropped, so clients try again, until the port is closed.

    Args:
        port: TCP port that this process listens on.
    """
    each_socket(port, _drop_new, listening=True)


def end_connections(port: int) -> None:
    """Sends nothing more on the connections of a port, after what was written already.

    Args:
        port: TCP port that this process listens on.
    """
    each_socket(port, lambda connection: connection.shutdown(socket.SHUT_WR), listening=False)


def _drop_new(listener: socket.socket) -> None:
    for level, option in _MIN_HOPS:
        with contextlib.suppress(OSError):  # an IPv4 socket has no options of IPv6
            listener.setsockopt(level, option, _HOPS)


def each_socket(port: int, do: Callable[[socket.socket], object], *, listening: bool) -> None:
    """Finds the sockets of a port among the open files of this process.

    Args:
        port: TCP port that this process listens on.
        do: Called with each of them, which is closed afterwards; the file itself stays open.
        listening: Those that take connections in, or else the connections.
    """
    with contextlib.suppress(OSError):  # a system without /proc
        for name in os.listdir(_OPEN_FILES):
            with contextlib.suppress(OSError):  # closed meanwhile, or no socket
                if not os.readlink(_OPEN_FILES / name).startswith("socket:"):
                    continue
                with socket.socket(fileno=os.dup(int(name))) as item:
                    if (
                        item.family in (socket.AF_INET, socket.AF_INET6)
                        and item.type == socket.SOCK_STREAM
                        and item.getsockname()[1] == port
                        and bool(item.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)) == listening
                    ):
                        do(item)

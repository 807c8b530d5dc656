"""Sockets of a port on every address of a host."""

from __future__ import annotations

import socket
from errno import EADDRINUSE, EADDRNOTAVAIL
from typing import Any, Final

from mnserve.access.addresses import ABSENT, join_address, socket_addresses
from mnserve.errors import StartError

_ATTEMPTS: Final = 10


def bind_sockets(host: str, port: int, option: str, *, share: bool = False) -> list[socket.socket]:
    """Binds one port on every address of a host that this machine has.

    Args:
        host: Host to bind; ``localhost`` is both loopback addresses.
        port: Port to bind; 0 takes a free one.
        option: Option of the port, for the message.
        share: Let other processes of this server listen on the same port.

    Raises:
        StartError: The port cannot be bound.
    """
    try:
        return _bound(host, port, share)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise StartError(
            f"cannot listen on {join_address(host, port)}: {reason}; choose another {option} or --host"
        ) from error


def _bound(host: str, port: int, share: bool) -> list[socket.socket]:
    for attempt in range(1, _ATTEMPTS + 1):
        sockets: list[socket.socket] = []
        taken, absent = port, OSError(EADDRNOTAVAIL, "the host has no address")
        try:
            for family, address in socket_addresses(host, port):
                try:
                    sockets.append(_bind(family, (address[0], taken, *address[2:]), share))
                except OSError as error:
                    if error.errno not in ABSENT:
                        raise
                    absent = error
                else:
                    taken = sockets[0].getsockname()[1]
            if sockets:
                return sockets
            raise absent
        except OSError as error:
            for one in sockets:
                one.close()
            # Of a free port of one address another one may already be in use.
            if port or not sockets or error.errno != EADDRINUSE or attempt == _ATTEMPTS:
                raise
    raise AssertionError("the last attempt returns or raises")


def _bind(family: socket.AddressFamily, address: tuple[Any, ...], share: bool) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setblocking(False)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if share:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if address[0] == "::" else 1)
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    return bound

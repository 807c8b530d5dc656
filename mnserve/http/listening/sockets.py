"""Sockets of a port, ready to listen."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from mnserve.access.addresses import bind_everywhere, join_address
from mnserve.errors import StartError


def bind_port(host: str, port: int, failure: str, *, share: bool = False) -> list[socket.socket]:
    """Binds a port on every address of a host that this machine has.

    Args:
        host: Host to bind; ``localhost`` is both loopback addresses.
        port: Port to bind; 0 takes a free one.
        failure: Message with places for the address and the reason.
        share: Let other processes of this server listen on the same port.

    Raises:
        StartError: The port cannot be bound.
    """
    try:
        return bind_everywhere(host, port, _bind(share))
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise StartError(failure.format(join_address(host, port), reason)) from error


def _bind(share: bool) -> Callable[[socket.AddressFamily, tuple[Any, ...]], socket.socket]:
    def bind(family: socket.AddressFamily, address: tuple[Any, ...]) -> socket.socket:
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

    return bind

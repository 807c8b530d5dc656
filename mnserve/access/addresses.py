"""Addresses that a server listens on."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Callable
from contextlib import ExitStack
from errno import EADDRINUSE, EADDRNOTAVAIL, EAFNOSUPPORT
from typing import Any, Final, TypeAlias

from mnserve.errors import StartError

SocketAddress: TypeAlias = "tuple[socket.AddressFamily, tuple[Any, ...]]"
"""Family, and address as the module ``socket`` takes it."""

ABSENT: Final = (EADDRNOTAVAIL, EAFNOSUPPORT)
"""Errors of an address that this machine does not have, such as ``::1`` without IPv6."""


_ATTEMPTS: Final = 10


def join_address(host: str, port: int) -> str:
    """Joins host and port as ``HOST:PORT``, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Returns True if a host is this machine alone: ``localhost``, or an address such as 127.0.0.1 or ::1.

    A name that only begins like such an address (``127.example.org``) is another machine.
    """
    plain = host.removeprefix("[").removesuffix("]").lower()
    with contextlib.suppress(OSError):
        plain = socket.inet_ntoa(socket.inet_aton(plain))  # short forms, such as 127.1
    try:
        address = ipaddress.ip_address(plain)
    except ValueError:
        return plain == "localhost"
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def socket_addresses(host: str, port: int) -> list[SocketAddress]:
    """Finds every address of a host; ``localhost`` has both loopback addresses, as gRPC has it.

    Raises:
        OSError: The host is not known.
        UnicodeError: The host cannot be encoded as a host name.
    """
    hosts = [host, "127.0.0.1", "::1"] if host.lower() == "localhost" else [host]
    found = [
        (family, address)
        for name in hosts
        for family, _, _, _, address in socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    ]
    return list(dict.fromkeys(found))


def bind_everywhere(
    host: str, port: int, bind: Callable[[socket.AddressFamily, tuple[Any, ...]], socket.socket]
) -> list[socket.socket]:
    """Binds one port on every address of a host that this machine has.

    Args:
        host: Host to bind; ``localhost`` is both loopback addresses.
        port: Port to bind; 0 takes a free one.
        bind: Makes the socket of a family, bound to an address.

    Returns:
        The sockets, at least one.

    Raises:
        OSError: The port is in use, or the host is no address of this machine.
        UnicodeError: The host cannot be encoded as a host name.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        sockets: list[socket.socket] = []
        taken, absent = port, OSError(EADDRNOTAVAIL, "the host has no address")
        try:
            for family, address in socket_addresses(host, port):
                try:
                    sockets.append(bind(family, (address[0], taken, *address[2:])))
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


def check_port_free(host: str, port: int, option: str) -> None:
    """Binds a port for a moment, since gRPC's own message about a port in use says little.

    Raises:
        StartError: The port is in use, or the host is no address of this machine.
    """
    try:
        with ExitStack() as stack:
            absent: OSError | None = None
            bound = 0
            for family, address in socket_addresses(host, port):
                try:
                    stack.enter_context(_bound_socket(family, address))
                    bound += 1
                except OSError as error:
                    if error.errno not in ABSENT:
                        raise
                    absent = error
            if absent is not None and not bound:
                raise absent
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise StartError(
            f"cannot listen on {join_address(host, port)}: {reason}; choose another {option} or --host"
        ) from error


def _bound_socket(family: socket.AddressFamily, address: tuple[Any, ...]) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as gRPC does; ports in use are still refused
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    return bound

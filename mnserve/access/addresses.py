"""Addresses that a server listens on."""

from __future__ import annotations

import contextlib
import ipaddress
import socket

from mnserve.errors import StartError


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


def check_port_free(host: str, port: int, option: str) -> None:
    """Binds a port for a moment, since gRPC's own message about a port in use says little.

    Raises:
        StartError: The port is in use, or the host is no address of this machine.
    """
    try:
        with contextlib.closing(_bound_socket(host, port)):
            pass
    except (OSError, UnicodeError) as error:  # UnicodeError: the host cannot be encoded as a host name
        reason = getattr(error, "strerror", None) or error
        raise StartError(
            f"cannot listen on {join_address(host, port)}: {reason}; choose another {option} or --host"
        ) from error


def _bound_socket(host: str, port: int) -> socket.socket:
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, address = addresses[0]
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as gRPC does; ports in use are still refused
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    return bound

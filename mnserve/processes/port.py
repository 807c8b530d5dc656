"""A port of all front ends, which the supervisor keeps for as long as it lives."""

from __future__ import annotations

import contextlib
import socket
from errno import EADDRINUSE
from typing import Any, Self

from mnserve.access.addresses import bind_everywhere, join_address
from mnserve.errors import StartError


class ReservedPort:
    """A port that is bound on every address of a host, and listened on by other processes with SO_REUSEPORT.

    Nobody listens on these sockets, so no connection comes to them. They keep the port from a second server, and for a
    front end that takes the place of one that died.

    Args:
        sockets: The bound sockets, at least one.
    """

    def __init__(self, sockets: list[socket.socket]) -> None:
        self._sockets = sockets
        self.number: int = sockets[0].getsockname()[1]
        """The port."""

    @classmethod
    def reserve(cls, host: str, port: int, option: str) -> Self:
        """Binds a port; ``check_port_free`` comes before, since this lets other sockets of this kind share it.

        Args:
            host: Host to bind; ``localhost`` is both loopback addresses.
            port: Port to bind; 0 takes a free one.
            option: Option of the port, for the message.

        Raises:
            StartError: The port is in use, or the host is no address of this machine.
        """
        try:
            return cls(bind_everywhere(host, port, _bound_socket))
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise StartError(
                f"cannot listen on {join_address(host, port)}: {reason}; choose another {option} or --host"
            ) from error

    def release(self) -> None:
        """Gives the port up."""
        for one in self._sockets:
            one.close()


def _bound_socket(family: socket.AddressFamily, address: tuple[Any, ...]) -> socket.socket:
    """Binds an address so that a socket without SO_REUSEPORT cannot.

    With SO_REUSEADDR as well it could, until somebody listens. That is only set where connections of an earlier server
    are left in TIME_WAIT.
    """
    try:
        return _bind(family, address, (socket.SO_REUSEPORT,))
    except OSError as error:
        if error.errno != EADDRINUSE:
            raise
    return _bind(family, address, (socket.SO_REUSEPORT, socket.SO_REUSEADDR))


def _bind(family: socket.AddressFamily, address: tuple[Any, ...], options: tuple[int, ...]) -> socket.socket:
    with contextlib.ExitStack() as stack:
        bound = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if address[0] == "::" else 1)
        for option in options:
            bound.setsockopt(socket.SOL_SOCKET, option, 1)
        bound.bind(address)
        stack.pop_all()
        return bound

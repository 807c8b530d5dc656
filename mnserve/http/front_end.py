"""The HTTP part of a server: the same calls as its gRPC part, from the open port to the last answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from starlette.routing import BaseRoute

from mnserve.access.addresses import join_address
from mnserve.http.application import make_application
from mnserve.http.listener import HttpListener
from mnserve.http.services import HttpServices
from mnserve.http.sockets import bind_sockets

_LAST_ANSWERS: Final = 5.0


class HttpFrontEnd:
    """Takes calls in on the HTTP port. ``start`` once, then ``close`` once.

    Args:
        services: What calls are answered from.
        routes: Further routes, such as those of a page.
    """

    def __init__(self, services: HttpServices, routes: Sequence[BaseRoute] = ()) -> None:
        self._services, self._routes = services, routes
        self._listener: HttpListener | None = None

    async def start(self, *, port: int, share_port: bool = False) -> str:
        """Listens.

        Args:
            port: Port to bind; 0 takes a free one.
            share_port: Let other processes of this server listen on the same port.

        Returns:
            URL of the server.

        Raises:
            StartError: The port cannot be bound.
        """
        host = self._services.settings.host
        sockets = bind_sockets(host, port, "--http-port", share=share_port)
        self._listener = HttpListener(make_application(self._services, self._routes), sockets)
        await self._listener.start()
        return f"http://{join_address(host, sockets[0].getsockname()[1])}"

    async def close(self) -> None:
        """Ends once computed answers have left."""
        if self._listener is not None:
            await self._listener.close(_LAST_ANSWERS)

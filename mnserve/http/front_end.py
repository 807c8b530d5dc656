"""The HTTP part of a server: the same calls as its gRPC part, from the open port to the last answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from starlette.routing import BaseRoute

from mnserve.access.addresses import join_address
from mnserve.errors import StartError
from mnserve.http.application import make_application
from mnserve.http.listening.limits import ConnectionLimits
from mnserve.http.listening.listener import HttpListener
from mnserve.http.listening.sockets import bind_port
from mnserve.http.listening.tls import server_context
from mnserve.http.services import HttpServices
from mnserve.settings import ServeSettings

_LAST_ANSWERS: Final = 5.0
_FAILURE: Final = "cannot listen on {}: {}; choose another --http-port or --host"


class HttpFrontEnd:
    """Takes calls in on the HTTP port. ``start`` once, then ``close`` once.

    Args:
        services: What calls are answered from.
        routes: Further routes, beside those of the protocol.

    Raises:
        CredentialsError: A file of certificates cannot be used.
    """

    def __init__(self, services: HttpServices, routes: Sequence[BaseRoute] = ()) -> None:
        self._services, self._routes = services, routes
        self._tls = server_context(services.settings.security)
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
        settings = self._services.settings
        sockets = bind_port(settings.host, port, _FAILURE, share=share_port)
        application = make_application(self._services, self._routes)
        self._listener = HttpListener(application, sockets, connection_limits(settings), self._tls)
        try:
            self._listener.start()
        except OSError as error:  # such as another process that began to listen in the same moment
            await self._listener.close(0.0)
            address, self._listener = join_address(settings.host, self._listener.port), None
            raise StartError(_FAILURE.format(address, error.strerror or error)) from error
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://{join_address(settings.host, self._listener.port)}"

    async def close(self) -> None:
        """Ends once computed answers have left."""
        if self._listener is not None:
            await self._listener.close(_LAST_ANSWERS)


def connection_limits(settings: ServeSettings) -> ConnectionLimits:
    """Returns the limits of connections that settings ask for."""
    return ConnectionLimits(
        head_bytes=settings.transport.max_metadata_bytes, age_seconds=settings.transport.max_connection_age
    )

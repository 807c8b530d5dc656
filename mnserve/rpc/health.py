"""Health service ``grpc.health.v1``, answered from the real state of the models.

Services: the empty name and ``inference.GRPCInferenceService`` for the server as a whole (every model ready, not
stopping), the name of each model, and ``inference.GRPCInferenceService/ServerLive`` for the process itself.

The servicer of ``grpcio-health-checking`` is not used. It holds a lock while it writes to a watcher, so that a watcher
that reads nothing stops the health of the whole server. Once one watcher of a service has left, the others are told
nothing more.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from mnserve.errors import InvalidRequestError
from mnserve.models.catalogue import Catalogue
from mnserve.protocol import service_pb2
from mnserve.rpc.services import Services
from mnserve.text.names import printable, shortened

Context = grpc.aio.ServicerContext[Any, Any]

SERVER_SERVICES: Final = ("", service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"].full_name)

LIVE_SERVICE: Final = f"{SERVER_SERVICES[1]}/ServerLive"
"""Says what the call ServerLive says, for liveness probes: models that are not ready are no reason to restart a server.
No model can have the name, which has a slash."""

MAX_NAME: Final = 1024
"""Most characters of a service's name. The longest name of a model has 255 bytes."""
_GRPC_SECONDS: Final = 5.0
"""Longest time in which gRPC cancels a call whose caller has left."""


class Health(health_pb2_grpc.HealthServicer):
    """Health service of one server.

    Args:
        models: The served models.
    """

    def __init__(self, models: Catalogue) -> None:
        self._models = models
        self._names: set[str] = set()
        self._watchers: set[asyncio.Event] = set()
        self._closed = False

    def add_to(self, services: Services) -> None:
        """Adds the service to those of a server."""
        services.add(health_pb2_grpc.add_HealthServicer_to_server, self)

    def update(self) -> None:
        """Has every watcher look at the present state."""
        self._names |= {state.name for state in self._models.states()}
        for changed in self._watchers:
            changed.set()

    def close(self) -> None:
        """Ends the calls of all watchers: the server is about to be gone."""
        self._closed = True
        self.update()

    async def Check(self, request: health_pb2.HealthCheckRequest, context: Context) -> health_pb2.HealthCheckResponse:
        """Tells if a service can be used now."""
        _check_name(request.service)
        status = self._status(request.service)
        if status is None:
            name = printable(shortened(request.service))
            await context.abort(grpc.StatusCode.NOT_FOUND, f"there is no service or model '{name}'")
        return _response(status)

    async def Watch(self, request: health_pb2.HealthCheckRequest, context: Context) -> None:
        """Tells the same now, and again after every change. A watcher that reads slowly misses states in between."""
        _check_name(request.service)
        changed = asyncio.Event()
        last: health_pb2.HealthCheckResponse | None = None
        self._watchers.add(changed)
        try:
            while not self._closed:
                changed.clear()
                response = _response(self._status(request.service))
                if response != last:
                    await context.write(response)
                    last = response
                await changed.wait()
        except grpc.aio.InternalError:  # the watcher has left, which gRPC would log; a cancelled call it does not
            await asyncio.sleep(_GRPC_SECONDS)
            raise
        finally:
            self._watchers.discard(changed)
        await context.abort(grpc.StatusCode.UNAVAILABLE, "the server is stopping; watch another one")

    async def List(self, request: Any, context: Context) -> Any:
        """Tells of every service at once; ``grpcio-health-checking`` has the call from version 1.82 on."""
        response: Any = vars(health_pb2)["HealthListResponse"]
        names = (*SERVER_SERVICES, LIVE_SERVICE, *sorted(self._names))
        return response(statuses={name: _response(self._status(name)) for name in names})

    def _status(self, service: str) -> bool | None:
        """Finds if a service can be used; None for an unknown one."""
        if service in SERVER_SERVICES:
            return self._models.ready
        if service == LIVE_SERVICE:
            return True
        if service in self._names:  # also of models that are gone: they may be watched
            return self._models.is_ready(service)
        return None


def _check_name(service: str) -> None:
    if len(service) > MAX_NAME:
        raise InvalidRequestError(f"the name of the service has {len(service)} characters, more than {MAX_NAME}")


def _response(status: bool | None) -> health_pb2.HealthCheckResponse:
    kinds = health_pb2.HealthCheckResponse
    if status is None:
        return kinds(status=kinds.SERVICE_UNKNOWN)
    return kinds(status=kinds.SERVING if status else kinds.NOT_SERVING)

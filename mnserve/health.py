"""``grpc.health.v1``, set from the real state of the models.

Services: the empty name and ``inference.GRPCInferenceService`` for the server as a whole (every model ready, not
stopping), and the name of each model.
"""

from __future__ import annotations

from typing import Final

from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from mnserve.models import Models
from mnserve.protocol import service_pb2
from mnserve.services import Services

__all__ = ["Health"]

SERVER_SERVICES: Final = ("", service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"].full_name)


class Health:
    """Keeps the health service up to date.

    Args:
        models: What is served.
    """

    def __init__(self, models: Models) -> None:
        self._models = models
        self._servicer = health.aio.HealthServicer()
        self._names: set[str] = set()

    def add_to(self, services: Services) -> None:
        """Adds the service to those of a server."""
        services.add(health_pb2_grpc.add_HealthServicer_to_server, self._servicer)

    async def update(self) -> None:
        """Takes over the present state."""
        for service in SERVER_SERVICES:
            await self._set(service, self._models.ready)
        self._names |= {state.name for state in self._models.states()}
        for name in self._names:  # of models that are gone, too: somebody may be watching
            await self._set(name, self._models.is_ready(name))

    async def _set(self, service: str, serving: bool) -> None:
        response = health_pb2.HealthCheckResponse
        await self._servicer.set(service, response.SERVING if serving else response.NOT_SERVING)

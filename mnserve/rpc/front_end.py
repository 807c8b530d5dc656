"""The gRPC part of a server: its services over a catalogue of models, from the open port to the last answer."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2, reflection_pb2_grpc

from mnserve.access.addresses import join_address
from mnserve.access.authorization import Authorization, AuthorizationInterceptor
from mnserve.access.call_limits import CallLimits
from mnserve.access.connections import end_connections, refuse_connections
from mnserve.access.rate_limits import RateLimits
from mnserve.access.tls import add_port, server_credentials
from mnserve.models.catalogue import Catalogue
from mnserve.protocol import model_config_pb2, service_pb2
from mnserve.protocol.service_pb2_grpc import add_GRPCInferenceServiceServicer_to_server
from mnserve.rpc.control_calls import ServiceOptions
from mnserve.rpc.health import Health
from mnserve.rpc.servicer import Servicer
from mnserve.rpc.services import Services
from mnserve.settings import ServeSettings

_MAX_PENDING: Final = 65_536
"""Most calls that gRPC holds until the event loop takes them in; some 12 KB each."""
_UNREAD_BYTES: Final = 262_144
"""Most bytes of a call that may arrive before its message is asked for."""
_LONG_SECONDS: Final = 86_400


@dataclass(frozen=True, kw_only=True)
class StopTimes:
    """Seconds of each step of a stop, after the drain.

    Attributes:
        refusal: Time in which new calls are still refused, so that clients that keep calling hear why.
        last_answers: Time for computed answers to leave.
        last_connections: Time for gRPC to accept connections that are there already.
        closing: Time for clients to close their connections once ours are ended.
    """

    refusal: float = 0.5
    last_answers: float = 5.0
    last_connections: float = 0.05
    closing: float = 1.0


class FrontEnd:
    """Takes calls in on a port and answers them from a catalogue. ``start`` once, then ``close`` once.

    Args:
        settings: Settings of the command line.
        models: The models.
        limits: Bounds of the calls in progress.
        failures: Limits of the calls without a good token of each address; None for no limit.
        stop_times: Seconds of each step of a stop.

    Raises:
        CredentialsError: A file of certificates or tokens cannot be used.
    """

    def __init__(
        self,
        settings: ServeSettings,
        models: Catalogue,
        limits: CallLimits,
        failures: RateLimits | None = None,
        stop_times: StopTimes | None = None,
    ) -> None:
        self._settings = settings
        self._models = models
        self._limits = limits
        self._stop_times = StopTimes() if stop_times is None else stop_times
        self._health = Health(models)
        self._credentials = server_credentials(settings.security)
        file = settings.security.token_file
        self.authorization = None if file is None else Authorization(Path(file), failures, limits.refused)
        """Checks the tokens of calls; None where they need none."""
        self._grpc: grpc.aio.Server | None = None
        self._servicer: Servicer | None = None
        self._port = 0

    async def start(self, offered: ServiceOptions, *, port: int, share_port: bool = False) -> str:
        """Listens.

        Args:
            offered: Services beside inference.
            port: Port to bind; 0 takes a free one.
            share_port: Let other processes of this server listen on the same port.

        Returns:
            URL of the server.

        Raises:
            StartError: The port cannot be bound.
        """
        self._servicer = servicer = Servicer(self._models, self._settings.max_message_bytes, offered)
        self._grpc = server = self._make_grpc(servicer, share_port)
        self._port = add_port(server, join_address(self._settings.host, port), self._credentials)
        self._health.update()
        await server.start()
        scheme = "grpc" if self._credentials is None else "grpcs"
        return f"{scheme}://{join_address(self._settings.host, self._port)}"

    @property
    def servicer(self) -> Servicer:
        """Answers the calls of the protocol, for other ways in than gRPC; there once this has started."""
        assert self._servicer is not None
        return self._servicer

    def update(self) -> None:
        """Has the watchers of health look at the present state."""
        self._health.update()

    def apply(self, method: str, message: bytes) -> None:
        """Makes a change of settings that another front end was asked for.

        Args:
            method: Name of the call.
            message: Its request.

        Raises:
            MnServeError: It cannot be made here.
        """
        if self._servicer is not None:
            self._servicer.settings.apply(method, message)

    def refuse(self) -> None:
        """Takes no new calls of inference, and none that load a model, from now on."""
        self._limits.inference.stop()
        self._limits.loads.stop()

    async def close(self) -> None:
        """Ends once computed answers have left: watches, then calls, then connections."""
        limits, times = self._limits, self._stop_times
        self._health.close()
        await asyncio.sleep(times.refusal)
        if answering := limits.inference.tasks | limits.loads.tasks:
            await asyncio.wait(answering, timeout=times.last_answers)
        if self._grpc is not None:
            refuse_connections(self._port)
            await asyncio.sleep(times.last_connections)
            end_connections(self._port)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._grpc.stop(times.closing), 2 * times.closing)

    def _make_grpc(self, servicer: Servicer, share_port: bool) -> grpc.aio.Server:
        limit = self._settings.max_message_bytes
        server = grpc.aio.server(
            interceptors=() if self.authorization is None else (AuthorizationInterceptor(self.authorization),),
            options=(
                ("grpc.max_receive_message_length", limit),
                ("grpc.max_send_message_length", limit),
                ("grpc.so_reuseport", int(share_port)),  # another server on the port fails instead of sharing it
                # gRPC would widen the window of a fast client until whole messages wait unread: 60 MiB for each call.
                ("grpc.http2.bdp_probe", 0),
                ("grpc.http2.lookahead_bytes", _UNREAD_BYTES),
                # gRPC ends calls as CANCELLED where more than 1,000 wait to be taken in, and those that wait for 30 s.
                # What is too much is refused by us, with a reason (mnserve.access.call_limits).
                ("grpc.server.max_pending_requests", _MAX_PENDING),
                ("grpc.server.max_pending_requests_hard_limit", _MAX_PENDING),
                ("grpc.server_max_unrequested_time_in_server", _LONG_SECONDS),
                *self._settings.transport.options,
            ),
        )
        services = Services(server, self._limits, servicer)
        services.add(add_GRPCInferenceServiceServicer_to_server, servicer)
        self._health.add_to(services)
        if self._settings.reflection:
            names = [
                service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"].full_name,
                health_pb2.DESCRIPTOR.services_by_name["Health"].full_name,
                reflection.SERVICE_NAME,
            ]
            reflecting = reflection.aio.ReflectionServicer(names, pool=_reflection_pool())
            services.add(reflection_pb2_grpc.add_ServerReflectionServicer_to_server, reflecting)
        return server


def _reflection_pool() -> DescriptorPool:
    """Describes every service of this server in a new pool, since ours are not in protobuf's default pool."""
    pool = DescriptorPool()
    for module in (model_config_pb2, service_pb2, health_pb2, reflection_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)  # type: ignore[no-untyped-call]
    return pool

"""The server as a whole: models, gRPC, health, reflection and metrics, from the start to the last answer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from dataclasses import dataclass
from pathlib import Path

import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2, reflection_pb2_grpc

from mnserve.access.authorization import AuthorizationInterceptor
from mnserve.access.rate_limits import RateLimits
from mnserve.access.tls import add_port, server_credentials
from mnserve.codec.shared_memory import Regions
from mnserve.errors import StartError, UnknownModelError
from mnserve.models.loading import LoadOptions
from mnserve.models.polling import Poller
from mnserve.models.registry import Models
from mnserve.models.response_cache import ResponseCache
from mnserve.models.served import ModelState
from mnserve.observability.log_settings import LogControl
from mnserve.observability.metrics import MetricsServer
from mnserve.observability.trace_settings import TraceChoice, TraceSettings
from mnserve.observability.tracing import Tracing
from mnserve.protocol import model_config_pb2, service_pb2
from mnserve.protocol.service_pb2_grpc import add_GRPCInferenceServiceServicer_to_server
from mnserve.rpc.control_calls import ServiceOptions
from mnserve.rpc.health import Health
from mnserve.rpc.servicer import Servicer
from mnserve.rpc.services import Services
from mnserve.settings import ServeSettings

_log = logging.getLogger(__name__)

_REFUSAL_SECONDS = 0.5
"""How long new requests are refused once the last admitted one is answered. Calls that arrive while gRPC itself stops
are cut off without a status of ours (clients see CANCELLED); whoever keeps calling, those answered last among them,
should have heard UNAVAILABLE before that."""
_LAST_ANSWERS_SECONDS = 5.0
"""How long answers that are computed already may take to leave."""
_GOODBYE_SECONDS = 1.0
"""How long gRPC may take after that to close connections; a client that reads nothing would hold it up for 20 s."""


@dataclass(frozen=True, kw_only=True)
class Addresses:
    """Where the server listens, with the ports that were really taken."""

    grpc: str
    metrics: str


class Server:
    """Serves one repository. ``start`` once, then ``stop`` once.

    Args:
        settings: What it was told.
    """

    def __init__(self, settings: ServeSettings) -> None:
        self._settings = settings
        options = LoadOptions(
            engine=settings.engine_options,
            default_max_batch_size=settings.default_max_batch_size,
            max_queue_rows=settings.max_queue_rows,
            max_queue_bytes=settings.max_queue_bytes,
            warm_up=settings.warm_up,
            run_timeout=settings.run_timeout,
            cache=ResponseCache(settings.cache_bytes) if settings.cache_bytes else None,
        )
        self._models = Models(Path(settings.repository), options, lambda: self._health.update())
        self._health = Health(self._models)
        self._grpc: grpc.aio.Server | None = None
        self._metrics: MetricsServer | None = None
        self._polling: asyncio.Task[None] | None = None
        self._tracing: Tracing | None = None

    @property
    def states(self) -> list[ModelState]:
        """The models, served or not."""
        return self._models.states()

    async def start(self) -> Addresses:
        """Loads the models, then listens.

        Raises:
            RepositoryNotFoundError: The repository is no folder.
            CredentialsError: A file of certificates or tokens cannot be used.
            StartError: A port is in use, there is nothing to serve, or with ``strict`` a model cannot be served.
        """
        settings = self._settings
        if settings.trace_endpoint:
            choice = TraceSettings(TraceChoice(rate=settings.trace_rate))
            self._tracing = Tracing.to_collector(settings.trace_endpoint, choice)
        check_port_free(settings.host, settings.grpc_port, "--grpc-port")
        check_port_free(settings.host, settings.metrics_port, "--metrics-port")
        credentials = server_credentials(settings.security)
        file = settings.security.token_file
        authorization = () if file is None else (AuthorizationInterceptor(Path(file)),)
        explicit = settings.model_control == "explicit"
        poller = Poller(Path(settings.repository), self._models, settings.poll_seconds)
        if settings.model_control == "poll":
            await poller.look()  # before anything is loaded, so that no change is missed
        try:
            await self._models.load_all(settings.load_model if explicit else None)
        except UnknownModelError as error:
            raise StartError(f"{error}; correct --load-model") from error
        self._check_loaded()
        if settings.model_control == "poll":
            self._polling = asyncio.get_running_loop().create_task(poller.run())
        self._grpc = server = self._make_grpc(authorization)
        address = join_address(settings.host, settings.grpc_port)
        port = add_port(server, address, credentials)
        self._metrics = MetricsServer(settings.host, settings.metrics_port, self._models.counters)
        self._health.update()
        await server.start()
        return Addresses(
            grpc=f"{'grpc' if credentials is None else 'grpcs'}://{join_address(settings.host, port)}",
            metrics=f"http://{join_address(settings.host, self._metrics.port)}/metrics",
        )

    async def stop(self) -> bool:
        """Not ready, a delay, no new requests, the queued ones finished, then everything closed.

        Returns:
            Whether every admitted request was finished in time.
        """
        self._models.stop()
        if self._polling is not None:
            self._polling.cancel()
        if self._settings.drain_delay:
            await asyncio.sleep(self._settings.drain_delay)
        finished = await self._models.drain(self._settings.drain_timeout)
        if not finished:
            _log.error("requests were still running after %g s; given up", self._settings.drain_timeout)
        await asyncio.sleep(_REFUSAL_SECONDS)
        self._health.close()
        if self._grpc is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._grpc.stop(_LAST_ANSWERS_SECONDS), _LAST_ANSWERS_SECONDS + _GOODBYE_SECONDS)
        if self._metrics is not None:
            await asyncio.to_thread(self._metrics.close)
        if self._tracing is not None:
            await asyncio.to_thread(self._tracing.close)
        return finished

    def _check_loaded(self) -> None:
        if self._settings.model_control != "none" and not self._settings.strict:
            return  # what is not there now may come
        states = [state for state in self._models.states() if state.loaded]
        failed = [state for state in states if not state.ready]
        if not states and self._settings.model_control == "none":
            raise StartError(
                f"model repository '{self._settings.repository}' has no models; put each one into a folder "
                "NAME/1/model.onnx"
            )
        if failed and len(failed) == len(states):
            reasons = "; ".join(state.reason for state in failed)
            raise StartError(f"no model of '{self._settings.repository}' can be served: {reasons}")
        if failed and self._settings.strict:
            reasons = "; ".join(state.reason for state in failed)
            raise StartError(f"--strict is set and not every model can be served: {reasons}")

    def _make_grpc(self, authorization: tuple[grpc.aio.ServerInterceptor, ...]) -> grpc.aio.Server:
        limit = self._settings.max_message_bytes
        server = grpc.aio.server(
            interceptors=authorization,
            maximum_concurrent_rpcs=self._settings.max_concurrent_requests or None,
            options=(
                ("grpc.max_receive_message_length", limit),
                ("grpc.max_send_message_length", limit),
                ("grpc.so_reuseport", 0),  # a second server on the port has to fail, not to share it
                *self._settings.transport.options,
            ),
        )
        services = Services(server)
        offered = ServiceOptions(
            control=self._settings.model_control,
            regions=Regions() if self._settings.offers_shared_memory else None,
            log=LogControl(self._settings.log_format),
            tracing=self._tracing,
            limits=_limits(self._settings),
            by_token=self._settings.security.token_file is not None,
        )
        services.add(add_GRPCInferenceServiceServicer_to_server, Servicer(self._models, limit, offered))
        self._health.add_to(services)
        if self._settings.reflection:
            names = [
                service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"].full_name,
                health_pb2.DESCRIPTOR.services_by_name["Health"].full_name,
                reflection.SERVICE_NAME,
            ]
            described = reflection.aio.ReflectionServicer(names, pool=_reflection_pool())
            services.add(reflection_pb2_grpc.add_ServerReflectionServicer_to_server, described)
        return server


def _limits(settings: ServeSettings) -> RateLimits | None:
    if not settings.rate_limit:
        return None
    return RateLimits(settings.rate_limit, settings.rate_burst or max(1, round(settings.rate_limit)))


def join_address(host: str, port: int) -> str:
    """``HOST:PORT``, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def check_port_free(host: str, port: int, option: str) -> None:
    """Binds a port for a moment, because gRPC's own message about one in use says little.

    Raises:
        StartError: The port is in use, or the host is none of this machine's.
    """
    try:
        with contextlib.closing(_bound_socket(host, port)):
            pass
    except (OSError, UnicodeError) as error:  # UnicodeError: not even the form of a host name
        reason = getattr(error, "strerror", None) or error
        raise StartError(
            f"cannot listen on {join_address(host, port)}: {reason}; choose another {option} or --host"
        ) from error


def _bound_socket(host: str, port: int) -> socket.socket:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, address = found[0]
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do; still refuses ports in use
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    return bound


def _reflection_pool() -> DescriptorPool:
    """Describes every service of this server. Ours are not in protobuf's default pool, so all go into a new one."""
    pool = DescriptorPool()
    for module in (model_config_pb2, service_pb2, health_pb2, reflection_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)  # type: ignore[no-untyped-call]
    return pool

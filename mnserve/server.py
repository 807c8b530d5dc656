"""The server: models, gRPC, health, reflection and metrics, from the start to the last answer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2, reflection_pb2_grpc

from mnserve.access.addresses import check_port_free, join_address
from mnserve.access.authorization import AuthorizationInterceptor
from mnserve.access.call_limits import CallLimits
from mnserve.access.connections import end_connections, refuse_connections
from mnserve.access.rate_limits import RateLimits
from mnserve.access.tls import add_port, server_credentials
from mnserve.codec.shared_memory import Regions
from mnserve.errors import StartError, UnknownModelError
from mnserve.models.load_options import LoadOptions
from mnserve.models.polling import LOAD_PATIENCE, Poller
from mnserve.models.registry import Models
from mnserve.models.served import ModelState
from mnserve.observability.log_settings import LogControl
from mnserve.observability.metrics import MetricsServer
from mnserve.observability.trace_settings import TraceChoice, TraceSettings
from mnserve.observability.tracing import Tracing
from mnserve.protocol import model_config_pb2, service_pb2
from mnserve.protocol.service_pb2_grpc import add_GRPCInferenceServiceServicer_to_server
from mnserve.repository.listing import look_through
from mnserve.rpc.control_calls import ServiceOptions
from mnserve.rpc.health import Health
from mnserve.rpc.servicer import Servicer
from mnserve.rpc.services import Services
from mnserve.rpc.streaming import StreamMemory
from mnserve.settings import ALL_MODELS, ServeSettings

_log = logging.getLogger(__name__)

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


@dataclass(frozen=True, kw_only=True)
class Addresses:
    """Addresses that the server listens on, with the ports that were taken.

    Attributes:
        grpc: URL of the gRPC server.
        metrics: URL of the metrics.
    """

    grpc: str
    metrics: str


class Server:
    """Serves one repository. ``start`` once, then ``stop`` once.

    Args:
        settings: Settings of the command line.
        stop_times: Seconds of each step of a stop.
    """

    def __init__(self, settings: ServeSettings, *, stop_times: StopTimes | None = None) -> None:
        self._settings = settings
        self._stop_times = StopTimes() if stop_times is None else stop_times
        self._models = Models(
            Path(settings.repository),
            LoadOptions.of_server(settings),
            lambda: self._health.update(),
            empty_is_ready=settings.allow_empty or settings.model_control == "explicit",
        )
        self._health = Health(self._models)
        self._limits = CallLimits(settings.max_concurrent_requests)
        self._grpc: grpc.aio.Server | None = None
        self._port = 0
        self._metrics: MetricsServer | None = None
        self._polling: asyncio.Task[None] | None = None
        self._tracing: Tracing | None = None

    @property
    def states(self) -> list[ModelState]:
        """States of all models, served or not."""
        return self._models.states()

    async def start(self) -> Addresses:
        """Loads the models, then listens.

        Raises:
            RepositoryNotFoundError: The repository is no folder.
            CredentialsError: A file of certificates or tokens cannot be used.
            StartError: A port is in use, the repository has no model, or with ``strict`` a model cannot be served.
        """
        settings = self._settings
        if settings.trace_endpoint:
            choice = TraceSettings(TraceChoice(rate=settings.trace_rate))
            self._tracing = Tracing.to_collector(settings.trace_endpoint, choice)
        check_port_free(settings.host, settings.grpc_port, "--grpc-port")
        check_port_free(settings.host, settings.metrics_port, "--metrics-port")
        credentials = server_credentials(settings.security)
        file = settings.security.token_file
        authorization = (
            ()
            if file is None
            else (AuthorizationInterceptor(Path(file), _rate_limits(settings), self._limits.refused),)
        )
        explicit = settings.model_control == "explicit"
        root = Path(settings.repository)
        poller = Poller(root, self._models, settings.poll_seconds, allow_empty=settings.allow_empty)
        if settings.model_control == "poll":
            await poller.look()  # before the models are loaded, so that no change is missed
        else:
            (await asyncio.to_thread(look_through, root)).log_left_out()
        try:
            every = not explicit or ALL_MODELS in settings.load_model
            patience = None if settings.strict else LOAD_PATIENCE
            await self._models.load_all(None if every else settings.load_model, patience)
        except UnknownModelError as error:
            raise StartError(f"{error}; correct --load-model") from error
        self._check_loaded()
        if settings.model_control == "poll":
            self._polling = asyncio.get_running_loop().create_task(poller.run())
        self._grpc = server = self._make_grpc(authorization)
        address = join_address(settings.host, settings.grpc_port)
        self._port = port = add_port(server, address, credentials)
        self._metrics = MetricsServer(settings.host, settings.metrics_port, self._models.counters, self._limits.refused)
        self._health.update()
        await server.start()
        return Addresses(
            grpc=f"{'grpc' if credentials is None else 'grpcs'}://{join_address(settings.host, port)}",
            metrics=f"http://{join_address(settings.host, self._metrics.port)}/metrics",
        )

    async def stop(self) -> bool:
        """Stops the server in order: not ready, a delay, no new requests, the queue drained, everything closed.

        Returns:
            True if every admitted request was finished in time.
        """
        self._models.stop()
        if self._polling is not None:
            self._polling.cancel()
        if self._settings.drain_delay:
            await asyncio.sleep(self._settings.drain_delay)
        limits = self._limits
        limits.inference.stop()
        limits.loads.stop()
        finished = await self._models.drain(self._settings.drain_timeout)
        if not finished:
            _log.error("requests were still running after %g s; given up", self._settings.drain_timeout)
        times = self._stop_times
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
        if self._metrics is not None:
            await asyncio.to_thread(self._metrics.close)
        if self._tracing is not None:
            await asyncio.to_thread(self._tracing.close)
        return finished

    def _check_loaded(self) -> None:
        if self._settings.model_control != "none" and not self._settings.strict:
            return  # models may come later
        states = [state for state in self._models.states() if state.loaded]
        failed = [state for state in states if not state.ready]
        if not states and self._settings.model_control == "none" and not self._settings.allow_empty:
            raise StartError(
                f"model repository '{self._settings.repository}' has no models; put each one into a folder "
                "NAME/1/model.onnx, or start with --allow-empty"
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
            options=(
                ("grpc.max_receive_message_length", limit),
                ("grpc.max_send_message_length", limit),
                ("grpc.so_reuseport", 0),  # a second server on the port fails instead of sharing it
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
        services = Services(server, self._limits)
        options = ServiceOptions(
            name=self._settings.server_name,
            control=self._settings.model_control,
            regions=Regions(max_bytes=self._settings.max_queue_bytes) if self._settings.offers_shared_memory else None,
            log=LogControl(self._settings.log_format),
            tracing=self._tracing,
            limits=_rate_limits(self._settings),
            by_token=self._settings.security.token_file is not None,
            refused=self._limits.refused,
            stream_memory=StreamMemory(self._settings.max_queue_bytes),
        )
        services.add(add_GRPCInferenceServiceServicer_to_server, Servicer(self._models, limit, options))
        self._health.add_to(services)
        if self._settings.reflection:
            names = [
                service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"].full_name,
                health_pb2.DESCRIPTOR.services_by_name["Health"].full_name,
                reflection.SERVICE_NAME,
            ]
            servicer = reflection.aio.ReflectionServicer(names, pool=_reflection_pool())
            services.add(reflection_pb2_grpc.add_ServerReflectionServicer_to_server, servicer)
        return server


def _rate_limits(settings: ServeSettings) -> RateLimits | None:
    if not settings.rate_limit:
        return None
    return RateLimits(settings.rate_limit, settings.rate_burst or max(1, round(settings.rate_limit)))


def _reflection_pool() -> DescriptorPool:
    """Describes every service of this server in a new pool, since ours are not in protobuf's default pool."""
    pool = DescriptorPool()
    for module in (model_config_pb2, service_pb2, health_pb2, reflection_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)  # type: ignore[no-untyped-call]
    return pool

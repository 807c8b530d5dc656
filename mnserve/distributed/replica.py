"""One replica: a server of the models in a worker of Ray, reached through Ray Serve's proxies and on its own port."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from mnserve.distributed.calls import LIST
from mnserve.distributed.guard import Guard
from mnserve.distributed.joined_statistics import join_statistics
from mnserve.distributed.protocol_methods import ProtocolMethods
from mnserve.distributed.proxied_calls import ProxiedCalls, ProxiedOptions, ProxiedServicer
from mnserve.distributed.proxied_context import ForwardedContext, ServeContext, Status
from mnserve.distributed.reloading import reload_models
from mnserve.distributed.replica_list import list_over_grpc, list_over_http
from mnserve.distributed.runtime import ray, serve
from mnserve.distributed.scaling import QUEUED_ROWS
from mnserve.distributed.settings import RaySettings
from mnserve.errors import MnServeError, ModelNotReadyError, StartError, UnavailableError
from mnserve.observability.logs import configure
from mnserve.protocol import service_pb2 as pb
from mnserve.rpc.health import Health
from mnserve.server import Server
from mnserve.starting.addresses import Addresses

_log = logging.getLogger(__name__)

_GATHER_SECONDS: Final = 5.0
"""Time for all replicas to tell something."""
RELOAD_SECONDS: Final = 3600.0
"""Time for all replicas to load their models."""


class Replica(ProtocolMethods):
    """A deployment of Ray Serve: each of its replicas serves the models with queues and engines of its own.

    Args:
        settings: Settings of the command line.
        options: Sum of the options, by which the command knows an application that it has started before.
        only: Names of the models to load; None loads all.
    """

    def __init__(self, settings: RaySettings, options: str = "", only: tuple[str, ...] | None = None) -> None:
        self._settings = settings
        self._options = options
        self._only = only
        self._server: Server | None = None
        self._addresses: Addresses | None = None
        self._calls: ProxiedCalls | None = None
        self._revision = ""
        self._reload_fault = ""
        self._stopping = False

    async def reconfigure(self, user_config: dict[str, Any]) -> None:
        """Starts the server, and has it load its models again once their revision is another one.

        Ray Serve calls this before a replica takes requests, and after each change of ``user_config``. A model that
        cannot be loaded again is served as it was; the list of replicas says why.

        Raises:
            MnServeError: The server cannot start.
        """
        revision = str(user_config.get("revision", ""))
        if self._server is None:
            await self._start()
        elif revision != self._revision:
            await self.reload()
        self._revision = revision

    async def reload(self) -> str:
        """Loads the models as they are in the repository now.

        Returns:
            Why some of them were not loaded, and are served as before; empty where all were.
        """
        if self._server is not None:
            self._reload_fault = await reload_models(self._server, self._settings.repository, self._only)
        return self._reload_fault

    async def reload_all(self) -> list[str]:
        """Has all replicas of this deployment load their models again; returns the different faults."""
        faults = await self._ask_all("reload", seconds=RELOAD_SECONDS)
        return sorted(set(faults))

    async def _start(self) -> None:
        settings = self._settings.of_replica(ray.util.get_node_ip_address())
        configure(settings.log_level, settings.log_format)
        server = Server(settings, only=self._only)
        self._addresses = await server.start()
        offered = ProxiedOptions.of(server.offered)
        self._calls = ProxiedCalls(
            ProxiedServicer(server.models, settings.max_message_bytes, offered, self._gather),
            Health(server.models),
            server.limits,
            Guard(settings, server.limits.refused),
        )
        self._server = server
        _log.info("replica %s serves on %s", serve.get_replica_context().replica_id.unique_id, self._addresses.grpc)

    async def check_health(self) -> None:
        """Tells Ray Serve if this replica has to be replaced.

        Raises:
            ModelNotReadyError: A model that was served cannot run any more, and only another process helps.
        """
        if self._server is None:
            raise StartError("the replica has not started; give its deployment a user_config")
        if not self._stopping and (reasons := self._server.models.broken()):
            raise ModelNotReadyError("; ".join(reasons))

    async def record_autoscaling_stats(self) -> dict[str, float]:
        """Reports the load of this replica to the autoscaler."""
        return {QUEUED_ROWS: 0 if self._server is None else self._server.models.waiting_rows()}

    def __del__(self) -> Any:
        """Ends as Ray Serve asks for it, and waits for, once no call through its proxies is in progress here."""
        return None if self._stopping else self.stop()

    async def stop(self) -> None:
        """Drains the server."""
        self._stopping = True
        if self._server is not None:
            await self._server.stop()

    async def answer(self, name: str, data: bytes, context: ServeContext) -> bytes:
        """See :meth:`ProtocolMethods.answer`."""
        if name == LIST:
            return await list_over_grpc(self._running.guard, self.replicas, context)
        return await self._running.answer(name, data, context)

    async def answer_stream(self, requests: AsyncIterator[bytes], context: ServeContext) -> AsyncIterator[bytes]:
        """See :meth:`ProtocolMethods.answer_stream`."""
        async for response in self._running.answer_stream(requests, context):
            yield response

    async def forward(
        self, name: str, data: bytes, metadata: list[tuple[str, str]], peer: str
    ) -> tuple[bytes, Status | None]:
        """Answers a call that another deployment had from a proxy.

        Args:
            name: Name of the call.
            data: Its message.
            metadata: What its caller sent with it.
            peer: Address of its caller.

        Returns:
            The answer, and the status of a call that failed.
        """
        context = ForwardedContext(metadata, peer)
        response = await self._running.answer(name, data, context)
        return response, context.status

    async def __call__(self, request: Request) -> Response:
        """Lists the replicas over HTTP, too."""
        return await list_over_http(self._running.guard, self.replicas, request)

    async def replicas(self) -> list[dict[str, Any]]:
        """Lists the replicas of this deployment with their addresses."""
        return await self._ask_all("describe")

    async def describe(self) -> dict[str, Any]:
        """Describes this replica."""
        if self._server is None or self._addresses is None:
            return {}
        return {
            "replica": serve.get_replica_context().replica_id.unique_id,
            "grpc": self._addresses.grpc if self._settings.placement.direct else "",
            "metrics": self._addresses.metrics,
            "models": sorted({state.name for state in self._server.models.states() if state.ready}),
            "options": self._options,
            "fault": self._reload_fault,
        }

    async def own_statistics(self, name: str, version: str) -> bytes:
        """Tells the counters of this replica: a ModelStatisticsResponse, empty where it has not this model."""
        counters: list[pb.ModelStatistics] = []
        if self._server is not None:
            with contextlib.suppress(MnServeError):
                counters = await self._server.models.statistics(name, version)
        return pb.ModelStatisticsResponse(model_stats=counters).SerializeToString()

    async def _gather(self, name: str, version: str) -> list[pb.ModelStatistics]:
        replicas = await self._ask_all("own_statistics", name, version)
        return join_statistics(pb.ModelStatisticsResponse.FromString(data).model_stats for data in replicas)

    async def _ask_all(self, method: str, *args: str, seconds: float = _GATHER_SECONDS) -> list[Any]:
        """Calls a method of all replicas of this deployment; one that ends meanwhile tells nothing.

        Raises:
            UnavailableError: Not all answer in time.
        """
        context = serve.get_replica_context()
        handle = serve.get_deployment_handle(context.deployment, context.app_name)
        try:
            answers = await handle.broadcast(method, *args).results_async(timeout_s=seconds, return_exceptions=True)
        except Exception as error:
            reason = f"the replicas did not answer together ({type(error).__name__}); try again"
            raise UnavailableError(reason) from error
        return [answer for answer in answers if answer and not isinstance(answer, BaseException)]

    @property
    def _running(self) -> ProxiedCalls:
        if self._calls is None:
            raise StartError("the replica has not started; give its deployment a user_config")
        return self._calls

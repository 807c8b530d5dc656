"""The server in one process: models, gRPC, health, reflection and metrics, from the start to the last answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from mnserve.access.addresses import check_port_free, join_address
from mnserve.access.call_limits import CallLimits
from mnserve.http.metrics import MetricsServer
from mnserve.models.catalogue import ModelState
from mnserve.models.load_options import LoadOptions
from mnserve.models.registry import Models
from mnserve.object_store.before_load import BeforeLoad
from mnserve.observability.tracing import Tracing
from mnserve.rpc.control_calls import ServiceOptions
from mnserve.rpc.front_end import FrontEnd, StopTimes
from mnserve.rpc.offered import offered_services, open_tracing, rate_limits
from mnserve.settings import OFF, ServeSettings
from mnserve.starting.addresses import Addresses
from mnserve.starting.loading import load_at_start
from mnserve.starting.verdict import check_loaded

if TYPE_CHECKING:
    from mnserve.http.front_end import HttpFrontEnd

_log = logging.getLogger(__name__)


class Server:
    """Serves one repository. ``start`` once, then ``stop`` once.

    Args:
        settings: Settings of the command line.
        before_load: Awaited before a caller's load of a model.
        stop_times: Seconds of each step of a stop.
        only: Names of the models to load; None loads those that the settings ask for.
    """

    def __init__(
        self,
        settings: ServeSettings,
        before_load: BeforeLoad | None = None,
        *,
        stop_times: StopTimes | None = None,
        only: Collection[str] | None = None,
    ) -> None:
        self._settings = settings
        self._only = only
        self._stop_times = stop_times
        self._models = Models(
            Path(settings.repository),
            LoadOptions.of_server(settings),
            self._changed,
            empty_is_ready=settings.allow_empty or settings.model_control == "explicit",
            before_load=before_load,
        )
        self.limits: CallLimits = CallLimits(settings.max_concurrent_requests)
        """Bounds of the calls in progress."""
        self._offered: ServiceOptions | None = None
        self._front_end: FrontEnd | None = None
        self._http: HttpFrontEnd | None = None
        self._metrics: MetricsServer | None = None
        self._polling: asyncio.Task[None] | None = None
        self._tracing: Tracing | None = None

    @property
    def states(self) -> list[ModelState]:
        """States of all models, served or not."""
        return self._models.states()

    @property
    def models(self) -> Models:
        """Models of the repository."""
        return self._models

    @property
    def offered(self) -> ServiceOptions:
        """Services beside inference; there are none before the start."""
        return self._offered or ServiceOptions()

    async def start(self) -> Addresses:
        """Loads the models, then listens.

        Raises:
            RepositoryNotFoundError: The repository is no folder.
            CredentialsError: A file of certificates or tokens cannot be used.
            StartError: A port is in use, the repository has no model, or with ``strict`` a model cannot be served.
        """
        settings = self._settings
        self._tracing = open_tracing(settings)
        check_port_free(settings.host, settings.grpc_port, "--grpc-port")
        check_port_free(settings.host, settings.metrics_port, "--metrics-port")
        if settings.http_port != OFF:
            check_port_free(settings.host, settings.http_port, "--http-port")
        self._front_end = front_end = FrontEnd(
            settings, self._models, self.limits, rate_limits(settings), self._stop_times
        )
        poller = await load_at_start(self._models, settings, only=self._only)
        check_loaded(settings, self._models.states())
        if poller is not None:
            self._polling = asyncio.get_running_loop().create_task(poller.run())
        self._offered = offered_services(settings, self._tracing, rate_limits(settings), self.limits.refused)
        url = await front_end.start(self._offered, port=settings.grpc_port)
        self._metrics = MetricsServer(settings.host, settings.metrics_port, self._models.counters, self.limits.refused)
        metrics = f"http://{join_address(settings.host, self._metrics.port)}/metrics"
        return Addresses(grpc=url, metrics=metrics, http=await self._start_http(front_end, self._metrics))

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
        if self._front_end is not None:
            self._front_end.refuse()
        finished = await self._models.drain(self._settings.drain_timeout)
        if not finished:
            _log.error("requests were still running after %g s; given up", self._settings.drain_timeout)
        closing = [part.close() for part in (self._front_end, self._http) if part is not None]
        await asyncio.gather(*closing)
        if self._metrics is not None:
            await asyncio.to_thread(self._metrics.close)
        if self._tracing is not None:
            await asyncio.to_thread(self._tracing.close)
        return finished

    async def _start_http(self, front_end: FrontEnd, metrics: MetricsServer) -> str | None:
        """Opens the HTTP port, if there is to be one; returns its URL."""
        if self._settings.http_port == OFF:
            return None
        from mnserve.console.routes import further_routes
        from mnserve.http.front_end import HttpFrontEnd  # loads Starlette, which other servers do without
        from mnserve.http.services import HttpServices

        services = HttpServices(
            settings=self._settings,
            models=self._models,
            calls=front_end.servicer,
            limits=self.limits,
            authorization=front_end.authorization,
            metrics=lambda accept: asyncio.to_thread(metrics.page.render, accept),
        )
        self._http = HttpFrontEnd(services, further_routes(services))
        return await self._http.start(port=self._settings.http_port)

    def _changed(self) -> None:
        if self._front_end is not None:
            self._front_end.update()

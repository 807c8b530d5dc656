"""The supervisor: starts, watches and drains the processes of a server, and is that server to the outside."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final

from mnserve.access.addresses import check_port_free, join_address
from mnserve.engines.cpu import available_cpus
from mnserve.engines.device import server_devices
from mnserve.errors import MnServeError, StartError
from mnserve.http.metrics import MetricsServer
from mnserve.models.catalogue import ModelState
from mnserve.models.statistics import ModelCounters
from mnserve.processes.calls import outcomes_of
from mnserve.processes.engine_place import EnginePlace
from mnserve.processes.engine_shares import engine_shares
from mnserve.processes.fleet import Fleet
from mnserve.processes.front_end_count import count_for, first_count
from mnserve.processes.front_end_place import FrontEndPlace
from mnserve.processes.port import ReservedPort
from mnserve.processes.request_counters import AllRefused
from mnserve.settings import OFF, ServeSettings
from mnserve.starting.addresses import Addresses
from mnserve.starting.verdict import check_loaded

_log = logging.getLogger(__name__)

_CLOSING_SECONDS: Final = 10.0
"""Longest time in which front ends end their calls and connections, after the drain."""
_REPLY_SECONDS: Final = 2.0
"""Time to tell that the drain is over, or to end; what takes longer is stuck, and is ended."""
_COUNTERS_SECONDS: Final = 5.0


class Supervisor:
    """Serves one repository with several processes. ``start`` once, then ``stop`` once.

    Args:
        settings: Settings of the command line.
    """

    def __init__(self, settings: ServeSettings) -> None:
        self._settings = settings
        self._fleet = Fleet(settings, self._grow)
        self._cpus = available_cpus()
        self._port: ReservedPort | None = None
        self._http_port: ReservedPort | None = None
        self._metrics: MetricsServer | None = None
        self._listening = False
        self._loop = asyncio.get_running_loop()

    @property
    def states(self) -> list[ModelState]:
        """States of all models, served or not."""
        return self._fleet.models.states()

    async def start(self) -> Addresses:
        """Starts all processes, and has the front ends listen once the models are loaded.

        Raises:
            RepositoryNotFoundError: The repository is no folder.
            CredentialsError: A file of certificates or tokens cannot be used.
            StartError: A port is in use, the repository has no model, or with ``strict`` a model cannot be served.
        """
        try:
            return await self._start()
        except MnServeError:
            await self._end()
            raise
        except OSError as error:
            await self._end()
            raise StartError(
                f"the processes of the server cannot be started: {error.strerror or error}; raise the limits of open "
                "files and of processes (ulimit -n, ulimit -u), or give --front-ends 0, one process for all"
            ) from error

    async def _start(self) -> Addresses:
        settings, fleet = self._settings, self._fleet
        check_port_free(settings.host, settings.grpc_port, "--grpc-port")
        check_port_free(settings.host, settings.metrics_port, "--metrics-port")
        self._port = ReservedPort.reserve(settings.host, settings.grpc_port, "--grpc-port")
        if settings.http_port != OFF:
            check_port_free(settings.host, settings.http_port, "--http-port")
            self._http_port = ReservedPort.reserve(settings.host, settings.http_port, "--http-port")
        fleet.add_engines(engine_shares(settings.engine_processes, server_devices(settings.engine_options)))
        first = first_count(self._cpus, settings.engine_processes)
        fleet.add_front_ends(first if settings.front_ends < 0 else settings.front_ends)
        await asyncio.gather(*(front_end.prepared for front_end in fleet.front_ends))
        await asyncio.gather(*(engine.loaded for engine in fleet.engines))
        check_loaded(settings, self.states)
        refused = AllRefused(fleet.administration.requests)
        self._metrics = MetricsServer(settings.host, settings.metrics_port, self._counters_from_thread, refused)
        fleet.administration.page = self._metrics.page
        self._listening = True
        self._listen(fleet.front_ends, self._port)
        self._log_counts()
        (grpc, http), *_ = await asyncio.gather(*(front_end.ready for front_end in fleet.front_ends))
        metrics = f"http://{join_address(settings.host, self._metrics.port)}/metrics"
        return Addresses(grpc=grpc, metrics=metrics, http=http)

    async def stop(self) -> bool:
        """Stops the server in order: not ready, a delay, no new requests, the queues drained, everything closed.

        Returns:
            True if every admitted request was finished in time.
        """
        fleet = self._fleet
        if self._metrics is None:  # it has not started, and nobody was served
            await self._end()
            return True
        for place in fleet.places:
            place.close()
            place.child.send("stopping")
        if self._settings.drain_delay:
            await asyncio.sleep(self._settings.drain_delay)
        for front_end in fleet.front_ends:
            front_end.child.send("refuse")
        finished = await self._drain(self._settings.drain_timeout)
        if not finished:
            _log.error("requests were still running after %g s; given up", self._settings.drain_timeout)
        closing = (front_end.calls.call("close", {}) for front_end in fleet.front_ends)
        await outcomes_of(closing, _CLOSING_SECONDS)
        if self._metrics is not None:
            await asyncio.to_thread(self._metrics.close)
        for place in fleet.places:
            place.child.send("end")
        await self._end(_REPLY_SECONDS)
        return finished

    async def _drain(self, timeout: float) -> bool:
        """Has front ends pass on what they have, and engine processes finish it; True if they did in time."""
        deadline = self._loop.time() + timeout
        await self._drain_all(self._fleet.front_ends, timeout)
        remaining = max(0.0, deadline - self._loop.time())
        engines = [engine for engine in self._fleet.engines if engine.child.alive]
        return all(outcome is True for outcome in await self._drain_all(engines, remaining))

    async def _drain_all(self, places: Sequence[FrontEndPlace | EnginePlace], timeout: float) -> list[Any]:
        """Drains processes side by side, and ends those that do not even tell that their time is over."""
        calls = (place.calls.call("drain", {"timeout": timeout}) for place in places)
        outcomes = await outcomes_of(calls, timeout + _REPLY_SECONDS)
        for place, outcome in zip(places, outcomes, strict=True):
            if isinstance(outcome, TimeoutError):
                _log.error("%s is stuck, and is ended", place.child.name)
                place.child.kill(expected=False)
        return outcomes

    async def _end(self, patience: float = 0.0) -> None:
        """Ends all processes, and gives the port up."""
        for place in self._fleet.places:
            place.close()
        if patience:
            await asyncio.gather(*(place.child.ended(patience) for place in self._fleet.places))
        self._fleet.kill()
        await asyncio.gather(*(place.child.ended() for place in self._fleet.places))
        for port in (self._port, self._http_port):
            if port is not None:
                port.release()

    def _listen(self, front_ends: Sequence[FrontEndPlace], port: ReservedPort) -> None:
        """Has front ends listen on the ports of the server."""
        http_port = OFF if self._http_port is None else self._http_port.number
        for front_end in front_ends:
            front_end.listen(port.number, http_port)

    def _grow(self) -> None:
        """Starts the front ends that models are worth which turned out to be fast, where their number is ours."""
        fleet = self._fleet
        if self._settings.front_ends < 0 and self._port is not None:
            before = len(fleet.front_ends)
            more = count_for(self._cpus, fleet.rows_per_second) - before
            try:
                fleet.add_front_ends(more, awaited=not self._listening)
            except OSError as error:
                _log.error("no further front end can be started: %s", error.strerror or error)
            if self._listening and len(fleet.front_ends) > before:
                self._log_counts()
                self._listen(fleet.front_ends[before:], self._port)

    def _log_counts(self) -> None:
        """Tells how many processes there are, and who has chosen that."""
        why = "as --front-ends says"
        if self._settings.front_ends < 0:
            rows = self._fleet.rows_per_second
            quickest = f"; the quickest model answers {rows:.3g} rows a second" * bool(rows)
            why = f"chosen by {self._cpus} CPU{'s' * (self._cpus > 1)} and the models{quickest}"
        front_ends, engines = len(self._fleet.front_ends), len(self._fleet.engines)
        _log.info(
            "processes: %d front end%s (%s), %d engine process%s",
            *(front_ends, "s" * (front_ends > 1), why, engines, "es" * (engines > 1)),
        )

    def _counters_from_thread(self) -> list[ModelCounters]:
        """Adds the counters up on the event loop, for a thread of the metrics."""

        async def counters() -> list[ModelCounters]:
            return self._fleet.administration.counters()

        return asyncio.run_coroutine_threadsafe(counters(), self._loop).result(_COUNTERS_SECONDS)

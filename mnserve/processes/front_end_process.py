"""A front end: a process that takes calls in, checks and decodes them, and has engine processes answer them."""

from __future__ import annotations

import asyncio
import logging
import socket
from base64 import b64decode, b64encode
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from mnserve.access import credential_files
from mnserve.access.call_limits import CallLimits
from mnserve.access.connection_balance import steer_connections
from mnserve.access.connection_counts import ConnectionCounts
from mnserve.access.refused_calls import RefusedCalls
from mnserve.access.shared_rate_limits import RateTable
from mnserve.channel.locked import LockedCells
from mnserve.channel.memory import SharedMemory
from mnserve.channel.pages import CounterPage
from mnserve.channel.wire_errors import error_fields
from mnserve.engine_links.front_end_link import LinkMemories
from mnserve.execution.garbage import keep_for_good
from mnserve.models.statistics import ModelCounters
from mnserve.observability.logs import configure
from mnserve.observability.trace_counts import SharedTraceCounts
from mnserve.observability.tracing import Tracing
from mnserve.processes.calls import Answerer, Arguments, Caller
from mnserve.processes.child_side import Supervision, supervised
from mnserve.processes.control import Message
from mnserve.processes.settings_message import settings_from_message
from mnserve.remote.engine_link import EngineLink
from mnserve.remote.engines import RemoteEngines
from mnserve.remote.models import RemoteModels
from mnserve.remote.records import ModelRecord
from mnserve.rpc.front_end import FrontEnd
from mnserve.rpc.offered import offered_services, open_tracing, rate_limits
from mnserve.rpc.process_settings import ProcessSettings
from mnserve.settings import OFF, ServeSettings
from mnserve.shared_catalogue.shared_counters import refused_of, slot_of

if TYPE_CHECKING:
    from mnserve.http.front_end import HttpFrontEnd

_LOOK_SECONDS: Final = 0.01
_QUIET_SECONDS: Final = 0.1
"""Time without a request in any engine process after which calls that go on have no request left."""


class FrontEndProcess:
    """Takes calls in as the supervisor says.

    Args:
        supervision: Control socket to the supervisor.
    """

    def __init__(self, supervision: Supervision) -> None:
        self._send = supervision.send
        self._authority = Caller(supervision.send)
        self._methods = {"apply": self._apply, "drain": self._drain, "close": self._close}
        self._answerer = Answerer(lambda method, arguments: self._methods[method](arguments), supervision.send)
        self._engines = RemoteEngines()
        self._tasks: set[asyncio.Task[None]] = set()
        self._port = 0
        self._connections: ConnectionCounts | None = None
        self._http: HttpFrontEnd | None = None
        supervision.open(self._take)

    def _take(self, message: Message, fds: list[int]) -> None:
        kind = message["kind"]
        if self._answerer.take(message):
            return
        if kind == "start":
            self._begin(message, fds)
        elif kind == "link":
            self._link(message, fds)
        elif kind == "catalogue":
            self._models.apply(map(ModelRecord.from_fields, message["models"]), message["gone"])
            self._send("ack", seq=message["seq"])
        elif kind == "engine_lost":
            self._engines.lost(message["engine"], message["generation"], frozenset(message["suspects"]))
        elif kind == "reply":
            self._authority.reply(message)
        elif kind == "apply":
            self._process_settings.apply(message["method"], b64decode(message["message"]))
        elif kind == "listen":
            self._tasks.add(asyncio.get_running_loop().create_task(self._listen(message["port"], message["http_port"])))
        elif kind == "steer":
            steer_connections(self._port, message["shares"])
        elif kind == "stopping":
            self._models.stop()
        elif kind == "refuse":
            self._front_end.refuse()

    def _begin(self, message: Message, fds: list[int]) -> None:
        self._settings = settings = settings_from_message(ServeSettings, message["settings"])
        configure(settings.log_level, settings.log_format)
        if message["place"]:  # the first front end tells of files that all of them read
            logging.getLogger(credential_files.__name__).setLevel(logging.ERROR)
        page, calls = (CounterPage.from_fd(fd).cells for fd in fds[:2])
        tables = [RateTable(LockedCells.from_fd(fd), bytes.fromhex(message["key"])) for fd in fds[2:4]]
        counts = SharedTraceCounts(LockedCells.from_fd(fds[4]))
        shared = (calls, message["place"])
        self._limits = CallLimits(settings.max_concurrent_requests, RefusedCalls(refused_of(page)), shared)
        self._models = RemoteModels(
            self._engines,
            self._authority,
            lambda name, version, slot: ModelCounters(name, version, lambda: 0, slot_of(page, slot)),
            lambda: self._front_end.update(),
            empty_is_ready=settings.allow_empty or settings.model_control == "explicit",
        )
        try:
            self._tracing: Tracing | None = open_tracing(settings, counts)
            self._front_end = FrontEnd(settings, self._models, self._limits, rate_limits(settings, tables[0]))
        except Exception as error:  # noqa: BLE001 (goes to the supervisor)
            self._send("failed", error=error_fields(error))
            return
        offered = offered_services(settings, self._tracing, rate_limits(settings, tables[1]), self._limits.refused)
        self._offered = replace(offered, spread=self._spread)
        self._process_settings = ProcessSettings(offered.regions, offered.log, offered.tracing)
        self._send("prepared")

    async def _listen(self, port: int, http_port: int) -> None:
        try:
            url = await self._front_end.start(self._offered, port=port, share_port=True)
            http = None if http_port == OFF else await self._listen_http(http_port)
        except Exception as error:  # noqa: BLE001 (goes to the supervisor)
            self._send("failed", error=error_fields(error))
        else:
            self._port = port
            keep_for_good()
            self._send("ready", url=url, http=http)
            self._connections = ConnectionCounts(port, lambda count: self._send("connections", count=count))

    async def _listen_http(self, port: int) -> str:
        from mnserve.console.routes import further_routes
        from mnserve.http.front_end import HttpFrontEnd  # loads Starlette, which other servers do without
        from mnserve.http.services import HttpServices

        services = HttpServices(
            settings=self._settings,
            models=self._models,
            calls=self._front_end.servicer,
            limits=self._limits,
            authorization=self._front_end.authorization,
            metrics=self._metrics,
        )
        self._http = HttpFrontEnd(services, further_routes(services))
        return await self._http.start(port=port, share_port=True)

    def _link(self, message: Message, fds: list[int]) -> None:
        sock, requests, answers = fds
        engine, generation = message["engine"], message["generation"]
        memories = LinkMemories(SharedMemory.from_fd(requests), SharedMemory.from_fd(answers))
        link = EngineLink(
            socket.socket(fileno=sock),
            memories,
            lambda _: self._send("link_lost", engine=engine, generation=generation),
        )
        self._engines.connect(engine, generation, link)

    # Calls of the other front ends ----------------------------------------------------------------------------

    async def _spread(self, method: str, message: bytes) -> None:
        await self._authority.call("spread", {"method": method, "message": b64encode(message).decode()})

    async def _metrics(self, accept: str) -> tuple[bytes, str]:
        """Asks the supervisor, which adds the counters of all processes up."""
        text, media_type = await self._authority.call("metrics", {"accept": accept})
        return text.encode(), media_type

    async def _apply(self, arguments: Arguments) -> None:
        self._process_settings.apply(arguments["method"], b64decode(arguments["message"]))

    # End ------------------------------------------------------------------------------------------------------

    async def _drain(self, arguments: Arguments) -> None:
        """Waits until no request is in work, for some seconds at most."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        deadline, busy = now + arguments["timeout"], now
        self._models.closing.set()
        while self._limits.inference.tasks and now < deadline and now - busy < _QUIET_SECONDS:
            await asyncio.sleep(_LOOK_SECONDS)
            now = loop.time()
            if self._engines.outstanding:
                busy = now

    async def _close(self, _: Arguments) -> None:
        if self._connections is not None:
            self._connections.close()
        parts = [part.close() for part in (self._front_end, self._http) if part is not None]
        await asyncio.gather(*parts)
        if self._tracing is not None:
            await asyncio.to_thread(self._tracing.close)


async def _main(supervision: Supervision) -> int:
    FrontEndProcess(supervision)  # lives on by its messages
    return await supervision.ended()


if __name__ == "__main__":
    supervised(_main)

"""A place for a front end: one is always there, and another one takes over after a death."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mnserve.channel.pages import CounterPage
from mnserve.channel.wire_errors import error_from_fields
from mnserve.errors import StartError, UnavailableError
from mnserve.processes.calls import Answerer, Arguments, Caller, taken
from mnserve.processes.child import Child
from mnserve.processes.common_limits import CommonLimits
from mnserve.processes.control import Message
from mnserve.processes.ending import ending
from mnserve.processes.listeners import Listeners
from mnserve.processes.merged_catalogue import CatalogueChange
from mnserve.processes.restarts import Restarts
from mnserve.shared_catalogue.shared_counters import PAGE_CELLS

_log = logging.getLogger(__name__)

_MODULE: Final = "mnserve.processes.front_end_process"


@dataclass(frozen=True, kw_only=True)
class FrontEndEvents:
    """What becomes of a front end; each is called with its place.

    Attributes:
        on_up: A process was started; links and models go to it now.
        on_lost: The process has ended.
        on_call: It asks for something: the method and its arguments.
        on_link_lost: Its link to an engine process has ended: number and generation of that process.
    """

    on_up: Callable[[FrontEndPlace], None]
    on_lost: Callable[[FrontEndPlace], None]
    on_call: Callable[[FrontEndPlace, str, Arguments], Any]
    on_link_lost: Callable[[FrontEndPlace, int, int], None]


class FrontEndPlace:
    """Starts a front end, and another one whenever it has ended.

    Args:
        number: Number of the place.
        settings: Settings of the server, values of JSON.
        limits: What all front ends count together.
        listeners: The front ends that listen.
        events: Hears what becomes of it.
        awaited: The start of the server waits for the first process, and fails with it.
    """

    def __init__(
        self,
        number: int,
        settings: dict[str, Any],
        limits: CommonLimits,
        listeners: Listeners,
        events: FrontEndEvents,
        *,
        awaited: bool = True,
    ) -> None:
        self.number = number
        self._awaited = awaited
        self._settings, self._limits, self._listeners, self._events = settings, limits, listeners, events
        self._restarts = Restarts()
        self._ports: dict[str, int] = {}
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self.prepared: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Set once the first process could use the settings, or not."""
        self.ready: asyncio.Future[tuple[str, str | None]] = asyncio.get_running_loop().create_future()
        """URLs on which the first process listens, of gRPC, and of HTTP where it does."""
        for future in (self.prepared, self.ready):
            future.add_done_callback(taken)
        self.start()

    def start(self) -> None:
        """Starts a process.

        Raises:
            OSError: The system starts none.
        """
        self._restarts.started()
        page = CounterPage.create(PAGE_CELLS)
        try:
            self.child = Child(_MODULE, f"front end {self.number}", self._take, self._died)
        except OSError:
            page.close()
            raise
        self.page = page
        self._told, self._heard = 0, 0
        self._acked = asyncio.Event()
        self.calls = Caller(self.child.send)
        self._answerer = Answerer(self._answer, self.child.send)
        fds = (self.page.fd, *self._limits.fds)
        self.child.send("start", fds, settings=self._settings, place=self.number, key=self._limits.key)
        try:
            self._events.on_up(self)
        except OSError as error:
            _log.error("%s cannot be linked to the engines: %s", self.child.name, error.strerror or error)
            self.child.kill(expected=False)
            return
        if self._ports:
            self._listeners.add(self)

    def listen(self, port: int, http_port: int) -> None:
        """Has this process, and those after it, listen on ports, each once those before it do.

        Args:
            port: Port of gRPC.
            http_port: Port of HTTP; -1 for none.
        """
        self._ports = {"port": port, "http_port": http_port}
        self._listeners.add(self)

    def begin_to_listen(self) -> None:
        """Has the process listen now."""
        self.child.send("listen", port=self._ports["port"], http_port=self._ports["http_port"])

    def steer(self, shares: Sequence[float] | None) -> None:
        """Has the process tell the kernel how new connections are shared."""
        self.child.send("steer", shares=shares)

    def tell(self, change: CatalogueChange) -> None:
        """Tells of a change of the models."""
        self._told += 1
        self._acked.clear()
        models = [model.fields() for model in change.models]
        self.child.send("catalogue", seq=self._told, models=models, gone=list(change.gone))

    async def knows(self) -> None:
        """Waits until the process has heard all that it was told, or has ended."""
        child, told = self.child, self._told
        while child is self.child and child.alive and self._heard < told:
            await self._acked.wait()

    def close(self) -> None:
        """Starts no other process from now on."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()

    def _take(self, message: Message, fds: list[int]) -> None:
        kind = message["kind"]
        if self._answerer.take(message):
            return
        if kind == "ack":
            self._heard = message["seq"]
            if self._heard == self._told:
                self._acked.set()
        elif kind == "reply":
            self.calls.reply(message)
        elif kind == "prepared" and not self.prepared.done():
            self.prepared.set_result(None)
        elif kind == "ready":
            self._listeners.listens(self)
            if not self.ready.done():
                self.ready.set_result((message["url"], message["http"]))
        elif kind == "connections":
            self._listeners.report(self, message["count"])
        elif kind == "link_lost":
            self._events.on_link_lost(self, message["engine"], message["generation"])
        elif kind == "failed":
            self._fail(error_from_fields(message["error"]))

    def _fail(self, error: Exception) -> None:
        """The process cannot serve: ends the start of the server, or the process, and another one tries."""
        if not self._fail_start(error):
            _log.error("%s cannot serve: %s", self.child.name, error)
            self.child.kill(expected=False)

    def _fail_start(self, error: Exception) -> bool:
        """Fails the start of the server, if that waits for this front end; False if it does not."""
        waiting = [future for future in (self.prepared, self.ready) if not future.done()]
        if self._awaited:
            for future in waiting:
                future.set_exception(error)
        return self._awaited and bool(waiting)

    async def _answer(self, method: str, arguments: Arguments) -> Any:
        return await self._events.on_call(self, method, arguments)

    def _died(self, code: int) -> None:
        how = ending(code)
        self.calls.end(UnavailableError(f"a front end has ended {how}"))
        self._acked.set()
        self._limits.calls.cells[self.number] = 0
        self._listeners.lost(self)
        self._events.on_lost(self)
        self.page.close()
        if self._fail_start(StartError(f"{self.child.name} has ended {how} at its start")):
            return
        if self._closed:
            if code:
                _log.error("%s has ended %s while the server stops; its callers are lost", self.child.name, how)
        else:
            _log.error("%s has ended %s and is started again; its callers are lost", self.child.name, how)
            restart = self._restarts.start_again(self.start, self.child.name)
            self._task = asyncio.get_running_loop().create_task(restart)

"""A place for an engine process: one is always there, and another one takes over after a death."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from mnserve.channel.pages import CounterPage
from mnserve.channel.wire_errors import error_from_fields
from mnserve.errors import EngineLostError, StartError
from mnserve.processes.calls import Caller, taken
from mnserve.processes.child import Child
from mnserve.processes.control import Message
from mnserve.processes.ending import ending
from mnserve.processes.engine_shares import EngineShare
from mnserve.processes.restarts import Restarts
from mnserve.shared_catalogue.engine_page import PAGE_CELLS

_log = logging.getLogger(__name__)

_MODULE: Final = "mnserve.processes.engine_process"
_ATTEMPTS: Final = 3
"""Starts in a row that may fail before the server's start does."""
_HUNG_SECONDS: Final = 1.0
"""Time for the requests of other models to end, once a run hangs."""


@dataclass(frozen=True, kw_only=True)
class EngineEvents:
    """What becomes of an engine process; each is called with its place.

    Attributes:
        on_up: A process was started.
        on_model: A model has changed; with the message.
        on_loaded: Everything is loaded.
        on_lost: The process has ended.
    """

    on_up: Callable[[EnginePlace], None]
    on_model: Callable[[EnginePlace, Message], None]
    on_loaded: Callable[[EnginePlace], None]
    on_lost: Callable[[EnginePlace], None]


@dataclass(kw_only=True)
class StartOrders:
    """What each new engine process is told, over all places.

    Attributes:
        settings: Settings of the server, values of JSON.
        wanted: Models that are loaded -> configuration in base64 in place of that of the repository, or None.
        left_out: Model -> reason for which it is not loaded, as it ended a process before.
    """

    settings: dict[str, Any]
    wanted: dict[str, str | None] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


class EnginePlace:
    """Starts an engine process, and another one whenever it has ended.

    Args:
        number: Number of the place.
        orders: What each process is told.
        events: Hears what becomes of it.
        share: What it may use of the machine.
    """

    def __init__(self, number: int, orders: StartOrders, events: EngineEvents, share: EngineShare) -> None:
        self.number = number
        self.generation = 0
        """Counts the processes of this place."""
        self.loaded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Set once everything is loaded for the first time, or cannot be."""
        self.loaded.add_done_callback(taken)
        self._orders, self._events, self._share = orders, events, share
        self._restarts = Restarts()
        self._failures = 0
        self._loading: list[str] = []
        self._killed: set[str] = set()
        """Models whose load was going on when the process before was killed from outside."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self.start()

    def start(self) -> None:
        """Starts a process.

        Raises:
            OSError: The system starts none.
        """
        self.generation += 1
        self._restarts.started()
        self._loading.clear()
        page = CounterPage.create(PAGE_CELLS)
        try:
            self.child = Child(_MODULE, f"engine process {self.number}", self._take, self._died)
        except OSError:
            page.close()
            raise
        self.page = page
        self.calls = Caller(self.child.send)
        orders = self._orders
        self.child.send(
            "start",
            (self.page.fd,),
            settings=orders.settings,
            wanted=orders.wanted,
            again=self.loaded.done(),
            left_out=orders.left_out,
            **asdict(self._share),
        )
        try:
            self._events.on_up(self)
        except OSError as error:
            _log.error("%s cannot be linked to the front ends: %s", self.child.name, error.strerror or error)
            self.child.kill(expected=False)

    def close(self) -> None:
        """Starts no other process from now on."""
        self._closed = True
        for task in self._tasks:
            task.cancel()

    def _take(self, message: Message, fds: list[int]) -> None:
        kind = message["kind"]
        if kind == "model":
            self._events.on_model(self, message)
        elif kind == "loading":
            if message["begins"]:
                self._loading.append(message["name"])
            else:
                self._loading.remove(message["name"])
                self._orders.left_out.pop(message["name"], None)  # this load has ended no process
                self._killed.discard(message["name"])
        elif kind == "started":
            self._failures = 0
            self._events.on_loaded(self)
            if not self.loaded.done():
                self.loaded.set_result(None)
        elif kind == "failed":
            self._fail(error_from_fields(message["error"]))
        elif kind == "reply":
            self.calls.reply(message)
        elif kind == "hung":
            _log.error("the engine process is started again, as a run of model '%s' hangs", message["name"])
            self._later(self._end_hung(self.child))

    def _fail(self, error: Exception) -> None:
        """The models cannot be loaded: ends the start of the server, or this process, which is tried again."""
        if self.loaded.done():
            _log.error("%s cannot load the models again: %s", self.child.name, error)
            self.child.kill(expected=False)
        else:
            self.loaded.set_exception(error)

    async def _end_hung(self, child: Child) -> None:
        await asyncio.sleep(_HUNG_SECONDS)
        child.kill(expected=False)

    def _died(self, code: int) -> None:
        how = ending(code)
        loading = [name for name in self._loading if code != -signal.SIGKILL or name in self._killed]
        # SIGKILL comes from outside: from a person, or from a system out of memory, which the load may have used up.
        self._killed = set(self._loading)
        for name in loading:
            self._orders.left_out[name] = (
                f"its load ended the engine process {how}; correct the model and load it again, or restart the server"
            )
            _log.error("model '%s' cannot be served: %s", name, self._orders.left_out[name])
        if not self._closed:
            _log.error("%s has ended %s and is started again", self.child.name, how)
        elif code:
            _log.error("%s has ended %s while the server stops", self.child.name, how)
        self.calls.end(EngineLostError(f"the engine process has ended {how} and is started again; try again later"))
        self._events.on_lost(self)
        self.page.close()
        if not loading:
            self._failures += 1
        if not self.loaded.done() and self._failures >= _ATTEMPTS:
            self.loaded.set_exception(StartError(f"the engine process has ended {how} {_ATTEMPTS} times at its start"))
        elif not self._closed:
            self._later(self._restarts.start_again(self.start, self.child.name, at_once=bool(loading)))

    def _later(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

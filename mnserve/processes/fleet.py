"""All processes of a server: who is linked to whom, and who hears what."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from mnserve.models.statistics import ModelCounters
from mnserve.object_store.before_load import BeforeLoad
from mnserve.observability.log_settings import LogControl
from mnserve.processes.administration import Administration
from mnserve.processes.child import Child
from mnserve.processes.common_limits import CommonLimits
from mnserve.processes.control import Message
from mnserve.processes.engine_place import EngineEvents, EnginePlace, StartOrders
from mnserve.processes.engine_shares import EngineShare
from mnserve.processes.front_end_place import FrontEndEvents, FrontEndPlace
from mnserve.processes.links import connect, link_bytes
from mnserve.processes.listeners import Listeners
from mnserve.processes.merged_catalogue import CatalogueChange, MergedCatalogue
from mnserve.processes.settings_message import settings_message
from mnserve.remote.engines import RemoteEngines
from mnserve.remote.mirror import CatalogueMirror
from mnserve.settings import ServeSettings

_log = logging.getLogger(__name__)

_LINK_SECONDS: Final = 1.0
"""Time in which the end of a process is noticed, after that of its links."""


class Fleet:
    """Front ends and engine processes of one server.

    Args:
        settings: Settings of the command line.
        on_faster: Called when ``rows_per_second`` has grown.
        before_load: Awaited before a caller's load of a model.
    """

    def __init__(
        self, settings: ServeSettings, on_faster: Callable[[], None], before_load: BeforeLoad | None = None
    ) -> None:
        self._on_faster = on_faster
        self.engines: list[EnginePlace] = []
        self.front_ends: list[FrontEndPlace] = []
        self.orders = StartOrders(settings=settings_message(settings))
        self.models = CatalogueMirror(
            RemoteEngines(),
            lambda name, version, _slot: ModelCounters(name, version, lambda: 0),
            lambda: None,
            empty_is_ready=True,
        )
        """Mirror of the catalogue."""
        self.rows_per_second = 0.0
        """What the fastest model that was loaded can answer; 0 where it is not known."""
        self.administration = Administration(
            self.models, self.engines, self.front_ends, self.orders, LogControl(settings.log_format), before_load
        )
        self._catalogue = MergedCatalogue(self.administration.requests)
        self._limits = CommonLimits()
        self._listeners = Listeners()
        self._link_bytes = link_bytes(settings.max_queue_bytes)

    @property
    def places(self) -> list[FrontEndPlace | EnginePlace]:
        """Places of all processes."""
        return [*self.front_ends, *self.engines]

    def add_engines(self, shares: Sequence[EngineShare]) -> None:
        """Starts engine processes.

        Args:
            shares: What each may use of the machine.

        Raises:
            OSError: The system starts no more processes.
        """
        events = EngineEvents(
            on_up=self._engine_up,
            on_model=self._engine_told,
            on_loaded=lambda engine: self._tell(self._catalogue.complete(engine.number)),
            on_lost=self._engine_lost,
        )
        for share in shares:
            self.engines.append(EnginePlace(len(self.engines), self.orders, events, share))

    def add_front_ends(self, count: int, *, awaited: bool = True) -> None:
        """Starts front ends.

        Args:
            count: Number of them.
            awaited: The start of the server waits for them, and fails with them.

        Raises:
            OSError: The system starts no more processes.
        """
        events = FrontEndEvents(
            on_up=self._front_end_up,
            on_lost=self._front_end_lost,
            on_call=self.administration.answer,
            on_link_lost=self._link_lost,
        )
        for _ in range(count):
            self.front_ends.append(
                FrontEndPlace(
                    len(self.front_ends), self.orders.settings, self._limits, self._listeners, events, awaited=awaited
                )
            )

    def kill(self) -> None:
        """Ends all processes at once."""
        for place in self.places:
            place.close()
            place.child.kill()

    # What becomes of them -------------------------------------------------------------------------------------

    def _front_end_up(self, front_end: FrontEndPlace) -> None:
        self.administration.requests.add_page(front_end.number, front_end.page.cells)
        for engine in self.engines:
            self._connect(front_end, engine)
        front_end.tell(self._catalogue.everything())
        self.administration.replay(front_end)

    def _front_end_lost(self, front_end: FrontEndPlace) -> None:
        self.administration.requests.fold(front_end.number)

    def _engine_up(self, engine: EnginePlace) -> None:
        self._catalogue.begin(engine.number, engine.generation)
        self.administration.batches.add_page(engine.number, engine.page.cells)
        self.administration.replay_log(engine)
        for front_end in self.front_ends:
            self._connect(front_end, engine)

    def _engine_told(self, engine: EnginePlace, message: Message) -> None:
        self.administration.batches.update(engine.number, message)
        self._tell(self._catalogue.update(engine.number, message))
        rates = [version["rows_per_second"] for version in message.get("versions", ())]
        if max(rates, default=0.0) > self.rows_per_second:
            self.rows_per_second = max(rates)
            self._on_faster()

    def _engine_lost(self, engine: EnginePlace) -> None:
        suspects = self.administration.batches.running(engine.number)
        self.administration.batches.fold(engine.number)
        if suspects:
            _log.error("%s was running %s", engine.child.name, ", ".join(f"model '{name}'" for name in suspects))
        for front_end in self.front_ends:
            front_end.child.send("engine_lost", engine=engine.number, generation=engine.generation, suspects=suspects)
        self._tell(self._catalogue.lose(engine.number))

    def _link_lost(self, front_end: FrontEndPlace, number: int, generation: int) -> None:
        """Links two processes again, unless one of them has ended."""
        loop = asyncio.get_running_loop()
        loop.call_later(_LINK_SECONDS, self._link_again, front_end, front_end.child, number, generation)

    def _link_again(self, front_end: FrontEndPlace, child: Child, number: int, generation: int) -> None:
        engine = self.engines[number]
        ended = child is not front_end.child or engine.generation != generation
        if ended or not (child.connected and engine.child.connected):
            return
        _log.error("%s and %s have lost their link by a fault, and are linked again", child.name, engine.child.name)
        # Any request that was on its way may be the reason, so none is sent again.
        names = [state.name for state in self.models.states()]
        child.send("engine_lost", engine=number, generation=generation, suspects=names)
        try:
            self._connect(front_end, engine)
        except OSError as error:
            _log.error("%s cannot be linked to the engines: %s", child.name, error.strerror or error)
            child.kill(expected=False)

    def _connect(self, front_end: FrontEndPlace, engine: EnginePlace) -> None:
        connect(front_end.child, engine.child, engine.number, engine.generation, self._link_bytes)

    def _tell(self, change: CatalogueChange) -> None:
        if change.models or change.gone:
            self.models.apply(change.models, change.gone)
            for model in change.models:
                if model.loaded:
                    self.orders.wanted.setdefault(model.name, None)
                else:
                    self.orders.wanted.pop(model.name, None)
            for name in change.gone:
                self.orders.wanted.pop(name, None)
            for front_end in self.front_ends:
                front_end.tell(change)

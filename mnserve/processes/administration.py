"""Calls that front ends pass on: those about all models, and those that change settings of every process."""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any, Final

from mnserve.errors import EngineLostError, LoadFailedError, MnServeError, ModelNotReadyError, StoppingError
from mnserve.models.statistics import ModelCounters
from mnserve.object_store.before_load import BeforeLoad
from mnserve.observability.log_settings import LogControl
from mnserve.observability.metrics import MetricsPage
from mnserve.processes.calls import Arguments, outcomes_of
from mnserve.processes.engine_counters import EngineCounters
from mnserve.processes.engine_place import EnginePlace, StartOrders
from mnserve.processes.front_end_place import FrontEndPlace
from mnserve.processes.journal import Journal
from mnserve.processes.request_counters import RequestCounters
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.remote.mirror import CatalogueMirror

_PATIENCE: Final = 10.0
"""Longest time that a call waits for a front end which does nothing."""
_BATCHES_SECONDS: Final = 2.0
"""Longest time that statistics wait for an engine process; what it told before is told again then."""


class Administration:
    """Answers the calls of front ends.

    Args:
        models: Mirror of the catalogue.
        engines: The engine processes.
        front_ends: The front ends.
        orders: What new engine processes are told.
        log: Log settings of the supervisor.
        before_load: Awaited before a load of a model.
    """

    def __init__(
        self,
        models: CatalogueMirror,
        engines: Sequence[EnginePlace],
        front_ends: Sequence[FrontEndPlace],
        orders: StartOrders,
        log: LogControl,
        before_load: BeforeLoad | None = None,
    ) -> None:
        self._models, self._engines, self._front_ends, self._orders = models, engines, front_ends, orders
        self.requests = RequestCounters()
        self.batches = EngineCounters()
        self.journal = Journal(log)
        self._changing = asyncio.Lock()
        self._before_load = before_load
        self.page: MetricsPage | None = None
        """Text of the metrics; there once the server listens."""

    async def answer(self, asking: FrontEndPlace, method: str, arguments: Arguments) -> Any:
        """Answers a call.

        Raises:
            MnServeError: It could not be done.
        """
        if method == "load":
            return await self._load(arguments)
        if method == "unload":
            return await self._unload(arguments)
        if method == "statistics":
            return await self._statistics(arguments)
        if method == "snapshots":
            return await self._snapshots()
        if method == "metrics":
            return await self._metrics(arguments)
        return await self._spread(asking, arguments)

    def counters(self) -> list[ModelCounters]:
        """Lists the counters of the loaded models over all processes."""
        found = []
        for state in self._models.states():
            if state.served is not None and state.version is not None:
                key = (state.name, state.version)
                counters = ModelCounters(*key, lambda: 0, self.requests.counts(key))
                self.batches.fill(counters)
                found.append(counters)
        return found

    async def _load(self, arguments: Arguments) -> None:
        name, config = arguments["name"], arguments["config"]
        if self._before_load is not None:
            await self._before_load(name, None if config is None else ModelConfig.FromString(b64decode(config)))
        self._orders.left_out.pop(name, None)
        try:
            await self._everywhere("load", arguments)
        except asyncio.CancelledError:
            self._orders.wanted[name] = config  # it goes on
            raise
        except EngineLostError as error:
            if name in self._orders.left_out:
                reason = self._orders.left_out[name]
                raise LoadFailedError(f"model '{name}' was not loaded: {reason}") from error
            raise
        self._orders.wanted[name] = config
        await self._known()

    async def _unload(self, arguments: Arguments) -> None:
        await self._everywhere("unload", arguments)
        await self._known()

    async def _everywhere(self, method: str, arguments: Arguments) -> None:
        """Has all engine processes do something: first one of them, and then the others side by side.

        What ends the first one, or cannot be done there, is not tried in the others.

        Raises:
            MnServeError: The error of the first that could not; where there are several, its message names it.
        """
        first, *others = self._engines
        outcomes = list(await asyncio.gather(first.calls.call(method, arguments), return_exceptions=True))
        if not isinstance(outcomes[0], BaseException):
            calls = (engine.calls.call(method, arguments) for engine in others)
            outcomes.extend(await asyncio.gather(*calls, return_exceptions=True))
        for engine, outcome in zip(self._engines, outcomes, strict=False):
            if isinstance(outcome, MnServeError) and len(self._engines) > 1:
                raise type(outcome)(f"engine process {engine.number}: {outcome}") from outcome
            if isinstance(outcome, BaseException):
                raise outcome

    async def _known(self) -> None:
        """Waits until every front end has heard of the last change of the models, unless it is stuck."""
        await outcomes_of((front_end.knows() for front_end in self._front_ends), _PATIENCE)

    async def _statistics(self, arguments: Arguments) -> list[str]:
        name, version = arguments["name"], arguments["version"]
        wanted = (self._models.find(name, version).version,) if name and version else None
        await asyncio.gather(*(self._ask_for_batches(engine) for engine in self._engines))
        return [
            b64encode(counters.message().SerializeToString()).decode()
            for counters in self.counters()
            if name in ("", counters.name) and (wanted is None or counters.version in wanted)
        ]

    async def _snapshots(self) -> list[dict[str, Any]]:
        await asyncio.gather(*(self._ask_for_batches(engine) for engine in self._engines))
        return [counters.snapshot() for counters in self.counters()]

    async def _metrics(self, arguments: Arguments) -> tuple[str, str]:
        if self.page is None:
            raise StoppingError("the server has only begun to start; ask again")
        text, media_type = await asyncio.to_thread(self.page.render, arguments["accept"])
        return text.decode(), media_type

    async def _ask_for_batches(self, engine: EnginePlace) -> None:
        generation = engine.generation
        try:
            async with asyncio.timeout(_BATCHES_SECONDS):
                told = await engine.calls.call("batches", {})
        except (TimeoutError, EngineLostError, ModelNotReadyError):
            return
        if generation == engine.generation:
            self.batches.take_batches(engine.number, told)

    async def _spread(self, asking: FrontEndPlace, arguments: Arguments) -> None:
        """Has the other front ends make a change that one has made, one change after the other."""
        method, message = arguments["method"], b64decode(arguments["message"])
        async with self._changing:
            others = [front_end for front_end in self._front_ends if front_end is not asking]
            calls = (front_end.calls.call("apply", arguments) for front_end in others)
            outcomes = await outcomes_of(calls, _PATIENCE)
            if log_changes := self.journal.add(method, message):
                for engine in self._engines:
                    engine.child.send("log", changes=log_changes)
            for front_end, outcome in zip(others, outcomes, strict=True):
                if isinstance(outcome, BaseException) and front_end.child.alive:
                    raise outcome

    def replay_log(self, engine: EnginePlace) -> None:
        """Has a new engine process make the changes of the log settings that the others have made."""
        if changes := self.journal.log_changes:
            engine.child.send("log", changes=changes)

    def replay(self, front_end: FrontEndPlace) -> None:
        """Has a new front end make the changes that the others have made."""
        for method, message in self.journal.entries():
            front_end.child.send("apply", method=method, message=b64encode(message).decode())

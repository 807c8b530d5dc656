"""Version of a model whose engines run in other processes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from mnserve.batching.request_limits import RequestLimits
from mnserve.codec.decoding import InferenceWork
from mnserve.errors import (
    DeadlineExceededError,
    EngineLostError,
    ModelNotReadyError,
    StaleEndpointError,
    StoppingError,
)
from mnserve.execution.results import InferenceResult
from mnserve.models.statistics import ModelCounters
from mnserve.remote.admission import OnAdmitted
from mnserve.remote.engines import RemoteEngines
from mnserve.remote.records import Json, VersionRecord
from mnserve.shared_catalogue.catalogue_message import config_from, queue_rules_from, signature_from

RECOVERY_SECONDS: Final = 10.0
"""Longest time that a request waits for an engine process to be there again."""
_CATALOGUE_SECONDS: Final = 2.0
"""Longest time in which a front end hears what took the place of a version."""


class RemoteEndpoint:
    """Sends the requests to a version to the engine processes that have it.

    Args:
        model: Name of the model.
        record: The version in the catalogue.
        engines: The engine processes.
        counters: Counters of its requests.
    """

    def __init__(self, model: str, record: VersionRecord, engines: RemoteEngines, counters: ModelCounters) -> None:
        self.name = model
        self.version = record.version
        self.config = config_from(record.description)
        self.signature = signature_from(record.description)
        self.queue_rules = queue_rules_from(record.description)
        self.counters = counters
        self.fault: str | None = None
        self.recovering = ""
        """Reason for which it is not ready, and will be again by itself; empty otherwise."""
        self._engines = engines
        self._description: Json = record.description
        self._default_limits = RequestLimits.under(self.queue_rules)
        self._places: Mapping[int, tuple[int, int]] = {}
        self._retired = False
        self.update(record)

    def serves(self, record: VersionRecord) -> bool:
        """Finds if a record is about the same model file and configuration, maybe in other processes."""
        return self._description == record.description

    def update(self, record: VersionRecord) -> None:
        """Notes where the version is served now."""
        self._places = record.places
        self.fault = record.reason if record.reason and not record.recovering else None
        self.recovering = record.reason if record.recovering else ""

    def retire(self) -> None:
        """Notes that another version, or none, has taken its place."""
        self._retired = True

    def reject_early(self, rows: int, level: int = 0) -> None:
        """Lets every request through: its queue is in another process, which refuses those that are too many."""

    async def infer(
        self, work: InferenceWork, limits: RequestLimits | None = None, on_admitted: OnAdmitted | None = None
    ) -> InferenceResult:
        """Sends a request to an engine process, and waits for its outputs.

        Where that process ends, the request goes to another one, or waits for the next. It fails if its own model was
        running then, as it may be the reason.

        Raises:
            RequestError, EngineError: As :meth:`mnserve.batching.batcher.Batcher.infer`, in the engine process.
        """
        limits = self._default_limits if limits is None else limits
        while True:
            places = self._places
            engine = self._engines.pick(places)
            if engine is None:
                await self._recovered(limits)
                continue
            try:
                return await engine.link.infer(places[engine.index][1], work, limits, on_admitted)
            except (StaleEndpointError, StoppingError) as error:
                if await self._moved(places):
                    continue
                if isinstance(error, StoppingError):
                    raise  # it says what became of the request
                raise self._stopping() from error
            except EngineLostError as error:
                suspects = await self._engines.suspects(engine)
                if suspects is None or self.name in suspects:
                    raise ModelNotReadyError(
                        f"model '{self.name}': its engine process ended while it ran the model, and is started again; "
                        "try again later"
                    ) from error

    async def _moved(self, places: Mapping[int, tuple[int, int]]) -> bool:
        """Waits for news of where the version is served, after some places; False if it is retired, or none come."""
        loop = asyncio.get_running_loop()
        until = loop.time() + _CATALOGUE_SECONDS
        while self._places is places and not self._retired:
            if not await self._engines.change(until - loop.time()):
                break
        return self._places is not places

    def _stopping(self) -> StoppingError:
        return StoppingError(f"model '{self.name}' is stopping and takes no new requests; try again")

    async def _recovered(self, limits: RequestLimits) -> None:
        """Waits until an engine process serves the version.

        Raises:
            StoppingError: Another version has taken its place.
            ModelNotReadyError: None does after a while, or the version will not come back.
            DeadlineExceededError: The caller's time is up.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + RECOVERY_SECONDS
        if limits.deadline is not None:
            until = min(until, limits.deadline)
        while self._engines.pick(self._places) is None:
            if self._retired:
                raise self._stopping()
            if self.fault is not None:
                raise ModelNotReadyError(f"model '{self.name}' is not ready: {self.fault}")
            if not await self._engines.change(until - loop.time()):
                if limits.deadline is not None and limits.deadline <= loop.time():
                    raise DeadlineExceededError(
                        f"model '{self.name}': the deadline passed while its engine process was started again"
                    )
                reason = self.recovering or "no engine process serves it"
                raise ModelNotReadyError(f"model '{self.name}' is not ready: {reason}; try again later")

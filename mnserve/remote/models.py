"""Mirror of the catalogue in a front end, kept up by the messages of the supervisor."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from mnserve.models.catalogue_view import CatalogueView
from mnserve.models.entry import ModelEntry
from mnserve.models.statistics import ModelCounters
from mnserve.protocol import service_pb2 as pb
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.remote.endpoint import RemoteEndpoint
from mnserve.remote.engines import RemoteEngines
from mnserve.remote.records import ModelRecord, VersionRecord


class Authority(Protocol):
    """Process that administers the models of all others."""

    async def call(self, method: str, arguments: Mapping[str, Any]) -> Any:
        """Has something done, and returns what it told, in values of JSON.

        Raises:
            MnServeError: It could not be done.
        """


class RemoteModels(CatalogueView[RemoteEndpoint]):
    """Models of a server, in a process that has none of their engines.

    Args:
        engines: The engine processes.
        authority: Loads and unloads models, and knows their statistics.
        counters: Makes the counters of a version: of its name, its number, and its row.
        on_change: Called when readiness changes.
        empty_is_ready: Be ready without any model that is to be served.
    """

    def __init__(
        self,
        engines: RemoteEngines,
        authority: Authority,
        counters: Callable[[str, int, int], ModelCounters],
        on_change: Callable[[], None],
        *,
        empty_is_ready: bool,
    ) -> None:
        super().__init__(empty_is_ready=empty_is_ready)
        self._engines = engines
        self._authority = authority
        self._counters = counters
        self._on_change = on_change
        self._known = False

    @property
    def ready(self) -> bool:
        """True if every model that is to be served answers requests, and there is one, or none is needed."""
        return self._known and super().ready

    def apply(self, models: Iterable[ModelRecord], gone: Iterable[str] = ()) -> None:
        """Takes in a part of the catalogue.

        Args:
            models: Models that have changed.
            gone: Names of models that are not there any more.
        """
        for record in models:
            entry = self._entries.setdefault(record.name, ModelEntry())
            entry.loaded, entry.faults = record.loaded, dict(record.faults)
            before, entry.served = entry.served, {}
            for version in record.versions:
                entry.served[version.version] = self._endpoint(record.name, version, before.get(version.version))
            _retire(before, entry.served)
        for name in gone:
            if (left := self._entries.pop(name, None)) is not None:
                _retire(left.served, {})
        self._known = True
        self._engines.wake()
        self._on_change()

    def stop(self) -> None:
        """Reports every model as not ready from now on; requests are still answered."""
        self._stopping = True
        self._on_change()

    async def load(self, name: str, override: ModelConfig | None = None) -> None:
        """Has a model loaded in all engine processes; every front end finds it then."""
        config = None if override is None else base64.b64encode(override.SerializeToString()).decode()
        await self._authority.call("load", {"name": name, "config": config})

    async def unload(self, name: str) -> None:
        """Has a model taken out of all engine processes."""
        await self._authority.call("unload", {"name": name})

    async def statistics(self, name: str = "", version: str = "") -> list[pb.ModelStatistics]:
        """Tells the counters of one model, or of all where no name is given, over all front ends."""
        if name:
            self.find(name, version)
        messages = await self._authority.call("statistics", {"name": name, "version": version})
        return [pb.ModelStatistics.FromString(base64.b64decode(text)) for text in messages]

    def _endpoint(self, name: str, record: VersionRecord, before: RemoteEndpoint | None) -> RemoteEndpoint:
        if before is not None and before.serves(record):
            before.update(record)
            return before
        return RemoteEndpoint(name, record, self._engines, self._counters(name, record.version, record.slot))

    def _reason(self, served: RemoteEndpoint) -> str:
        return super()._reason(served) or served.recovering


def _retire(before: Mapping[int, RemoteEndpoint], now: Mapping[int, RemoteEndpoint]) -> None:
    for version, endpoint in before.items():
        if now.get(version) is not endpoint:
            endpoint.retire()

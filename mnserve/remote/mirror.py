"""Mirror of the catalogue in a process without engines, kept up by messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from mnserve.models.catalogue_view import CatalogueView
from mnserve.models.entry import ModelEntry
from mnserve.models.statistics import ModelCounters
from mnserve.remote.endpoint import RemoteEndpoint
from mnserve.remote.engines import RemoteEngines
from mnserve.remote.records import ModelRecord, VersionRecord


class CatalogueMirror(CatalogueView[RemoteEndpoint]):
    """Models of a server as a process sees them that has none of their engines.

    Args:
        engines: The engine processes.
        counters: Makes the counters of a version: of its name, its number, and its row.
        on_change: Called when readiness changes.
        empty_is_ready: Be ready without any model that is to be served.
    """

    def __init__(
        self,
        engines: RemoteEngines,
        counters: Callable[[str, int, int], ModelCounters],
        on_change: Callable[[], None],
        *,
        empty_is_ready: bool,
    ) -> None:
        super().__init__(empty_is_ready=empty_is_ready)
        self._engines = engines
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

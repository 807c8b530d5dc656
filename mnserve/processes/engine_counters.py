"""Counters of batches over all engine processes, those that have died included, and what waits in them now."""

from __future__ import annotations

from typing import Any

from mnserve.models.statistics import BatchCounters, Duration, ModelCounters
from mnserve.processes.control import Message
from mnserve.processes.request_counters import Key
from mnserve.shared_catalogue.engine_page import EngineRow

_Batches = dict[int, BatchCounters]


class EngineCounters:
    """Adds up what the engine processes count."""

    def __init__(self) -> None:
        self._pages: dict[int, memoryview[int]] = {}
        self._endpoints: dict[int, dict[Key, int]] = {}
        """Engine process -> version -> its endpoint."""
        self._batches: dict[int, dict[Key, _Batches]] = {}
        """The same -> batches, as they were told last."""
        self._base_runs: dict[Key, int] = {}
        self._base_batches: dict[Key, _Batches] = {}

    def add_page(self, engine: int, page: memoryview[int]) -> None:
        """Reads the page of an engine process from now on."""
        self._pages[engine] = page
        self._endpoints[engine] = {}
        self._batches[engine] = {}

    def update(self, engine: int, message: Message) -> None:
        """Takes what an engine process tells of one model; see ``mnserve.shared_catalogue.catalogue_message``."""
        name = message["name"]
        loaded = {
            (name, version["version"]): version["id"]
            for version in message.get("versions", ())
            if version["id"] is not None
        }
        endpoints = self._endpoints[engine]
        for key in [key for key in endpoints if key[0] == name and key not in loaded]:
            del endpoints[key]
            self._batches[engine].pop(key, None)
            if not any(key in others for others in self._endpoints.values()):
                self._base_runs.pop(key, None)  # it begins anew once it is loaded again
                self._base_batches.pop(key, None)
        endpoints.update(loaded)

    def take_batches(self, engine: int, told: list[dict[str, Any]]) -> None:
        """Takes the durations of batches that an engine process has told; see :func:`batches_message`."""
        for item in told:
            key = (item["name"], item["version"])
            if key in self._endpoints.get(engine, {}):
                self._batches[engine][key] = {
                    rows: BatchCounters(*(Duration(*pair) for pair in pairs)) for rows, *pairs in item["batches"]
                }

    def fold(self, engine: int) -> None:
        """Keeps the counts of an engine process that has ended."""
        for key in self._endpoints.get(engine, {}):
            self._base_runs[key] = self._base_runs.get(key, 0) + self._runs(engine, key)
            batches = self._batches[engine].get(key, {})
            self._base_batches[key] = _added((self._base_batches.get(key, {}), batches))
        for table in (self._pages, self._endpoints, self._batches):
            table.pop(engine, None)

    def running(self, engine: int) -> list[str]:
        """Names the models of an engine process that have a run in progress."""
        found = (key[0] for key, number in self._endpoints[engine].items() if self._row(engine, number).running)
        return sorted(set(found))

    def fill(self, counters: ModelCounters) -> None:
        """Completes the counters of one version with its runs, its batches and what waits."""
        key = (counters.name, counters.version)
        engines = [engine for engine, endpoints in tuple(self._endpoints.items()) if key in endpoints]
        counters.runs = self._base_runs.get(key, 0) + sum(self._runs(engine, key) for engine in engines)
        batches = (self._batches[engine].get(key, {}) for engine in engines)
        counters.batches = _added((self._base_batches.get(key, {}), *batches))
        waiting = sum(self._row(engine, self._endpoints[engine][key]).requests for engine in engines)
        counters.pending = lambda: waiting

    def _runs(self, engine: int, key: Key) -> int:
        return self._row(engine, self._endpoints[engine][key]).run_cell[0]

    def _row(self, engine: int, endpoint: int) -> EngineRow:
        return EngineRow(self._pages[engine], endpoint)


def batches_message(counters: ModelCounters) -> dict[str, Any]:
    """Describes the batches of one version in values of JSON, with a row for each number of rows."""
    return {
        "name": counters.name,
        "version": counters.version,
        "batches": [
            [rows, *([item.count, item.ns] for item in (batch.input, batch.infer, batch.output))]
            for rows, batch in sorted(counters.batches.items())
        ],
    }


def _added(tables: tuple[_Batches, ...]) -> _Batches:
    total: _Batches = {}
    for table in tables:
        for rows, batch in table.items():
            sums = total.setdefault(rows, BatchCounters())
            for one, other in ((sums.input, batch.input), (sums.infer, batch.infer), (sums.output, batch.output)):
                one.count += other.count
                one.ns += other.ns
    return total

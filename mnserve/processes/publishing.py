"""What an engine process tells of its models: their descriptions to the supervisor, and what runs in its page."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any, Final

from mnserve.models.loading import LoadedModel
from mnserve.models.registry import Models
from mnserve.models.served import ServedModel
from mnserve.processes.calls import Send
from mnserve.shared_catalogue.catalogue_message import version_message
from mnserve.shared_catalogue.engine_page import EngineRow, free_number

_LOOK_SECONDS: Final = 0.05
"""Time between two looks at what waits."""


class Publisher:
    """Tells of the models of this process as they change.

    Args:
        models: The models.
        page: Page of this process.
        send: Sends a control message to the supervisor.
    """

    def __init__(self, models: Models, page: memoryview[int], send: Send) -> None:
        self._models, self._page, self._send = models, page, send
        self._numbers = count(1)
        self._known: dict[ServedModel, tuple[int, dict[str, Any]]] = {}
        """Served version -> number of its endpoint, and its description."""
        self._told: dict[str, dict[str, Any]] = {}
        self._hung: set[int] = set()
        self._rows: dict[int, EngineRow] = {}
        self.endpoints: dict[int, ServedModel] = {}
        """Served versions by number."""

    def update(self) -> None:
        """Tells which models have changed since the last time."""
        now: dict[str, dict[str, Any]] = {}
        served: set[ServedModel] = set()
        for state in self._models.states():
            model = now.setdefault(
                state.name, {"name": state.name, "loaded": state.loaded, "faults": [], "versions": []}
            )
            if isinstance(state.served, ServedModel):
                served.add(state.served)
                model["versions"].append(self._version(state.served))
            elif state.loaded:
                model["faults"].append([state.version, state.reason])
        for gone in self._known.keys() - served:
            number, _ = self._known.pop(gone)
            del self.endpoints[number], self._rows[number]
        for name, model in now.items():
            if self._told.get(name) != model:
                self._send("model", **model)
        for name in self._told.keys() - now.keys():
            self._send("model", name=name, gone=True)
        self._told = now
        self._tell_of_hangs()

    async def watch(self) -> None:
        """Shows what waits, until it is cancelled."""
        while True:
            for number, served in self.endpoints.items():
                batcher = served.batcher
                self._rows[number].wait(batcher.waiting_requests, batcher.waiting_rows)
            await asyncio.sleep(_LOOK_SECONDS)

    def _version(self, served: ServedModel) -> dict[str, Any]:
        if served not in self._known:
            number = free_number(self._numbers, self.endpoints)
            row = self._rows[number] = EngineRow(self._page, number)
            row.begin()
            served.counters.count_runs_in(row.run_cell)
            served.batcher.show_running_in(row.running_cells)
            description = version_message(served.config, served.signature, served.queue_rules)
            self._known[served] = (number, description)
            self.endpoints[number] = served
        number, description = self._known[served]
        return {
            "version": served.version,
            "id": number,
            "reason": served.fault or "",
            "description": description,
            "rows_per_second": _rows_per_second(served.model),
        }

    def _tell_of_hangs(self) -> None:
        for number, served in self.endpoints.items():
            if served.batcher.hung and number not in self._hung:
                self._hung.add(number)
                self._send("hung", name=served.name)


def _rows_per_second(model: LoadedModel) -> float:
    """Estimates what the engines of a model answer together; 0 where no run was timed."""
    return 0.0 if model.run_costs is None else model.instances / model.run_costs.row

"""Loaded version of a model with its batcher and counters, and the entry of a model's name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mnserve.batching.batcher import Batcher
from mnserve.execution.instances import Instance
from mnserve.models.loading import LoadedModel
from mnserve.models.statistics import ModelCounters


class ServedModel:
    """A loaded model with its batcher and its counters.

    Args:
        model: The loaded model.
        instances: Its engines, each with the thread that loaded it and will run it.
        on_change: Called when its readiness changes.
        before: The same version as it was loaded before; its counters go on.
    """

    def __init__(
        self,
        model: LoadedModel,
        instances: Sequence[Instance],
        on_change: Callable[[], None],
        before: ServedModel | None = None,
    ) -> None:
        self.model = model
        self.fault: str | None = None
        """Reason for which it is not ready; None while it is."""
        self._instances = instances
        self._on_change = on_change
        self.counters: ModelCounters = (
            ModelCounters(model.name, model.version, lambda: 0) if before is None else before.counters
        )
        self.batcher: Batcher = Batcher(
            instances,
            name=model.name,
            options=model.batching,
            on_batch=self.counters.record_batch,
            on_death=self._died,
            health=model.health,
        )

    def take_over(self) -> None:
        """Takes the place of the version before: the counters tell the requests that wait here."""
        self.counters.pending = lambda: self.batcher.waiting_requests

    def _died(self, reason: str) -> None:
        self.fault = reason
        self._on_change()

    async def retire(self) -> None:
        """Refuses new requests, finishes those that were admitted, and closes the engines."""
        self.batcher.refuse()
        await self.batcher.drain()
        self.close()

    def close(self) -> None:
        """Closes the engines; nothing may run any more. Where one hangs in a batch, all are left to themselves."""
        if self.model.responses is not None:
            self.model.responses.drop()
        if self.batcher.hung:
            return
        for instance in self._instances:
            instance.engine.close()


@dataclass(kw_only=True)
class ModelEntry:
    """Versions under one name of the repository.

    Attributes:
        served: Versions that are loaded.
        faults: Version -> reason for which it could not be loaded; None stands for a version that was not found.
        loaded: The model is to be served at all.
        lock: Held while the model is loaded or unloaded.
    """

    served: dict[int, ServedModel] = field(default_factory=dict)
    faults: dict[int | None, str] = field(default_factory=dict)
    loaded: bool = True
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(frozen=True, kw_only=True)
class ModelState:
    """State of one version in the list of models.

    Attributes:
        name: Name of the model.
        version: Its version, or None where none was found.
        served: The model, or None where it is not loaded.
        reason: Reason for which it is not ready; empty where it is.
        loaded: The model is to be served.
    """

    name: str
    version: int | None
    served: ServedModel | None
    reason: str
    loaded: bool = True

    @property
    def ready(self) -> bool:
        """True if it answers requests."""
        return not self.reason

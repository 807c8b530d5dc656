"""Registry of the served models of a repository with their states, found by name and version.

A model that cannot be loaded stands beside the others with the reason; it does not keep them from being served. A
model that is loaded again takes the place of the one before in a single step; that one finishes what it admitted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from mnserve.errors import (
    LoadFailedError,
    ModelNotFoundError,
    StoppingError,
    UnknownModelError,
)
from mnserve.models.catalogue_view import CatalogueView
from mnserve.models.draining import DrainingModels
from mnserve.models.entry import ModelEntry
from mnserve.models.lifecycle import load_versions
from mnserve.models.load_options import LoadOptions
from mnserve.models.load_tasks import LoadTasks
from mnserve.models.served import ServedModel
from mnserve.models.statistics import ModelCounters
from mnserve.models.version_lookup import LOADING
from mnserve.object_store.before_load import BeforeLoad
from mnserve.protocol import service_pb2 as pb
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.repository.listing import list_models
from mnserve.repository.reader import list_versions
from mnserve.text.names import listed

_log = logging.getLogger(__name__)

_THOROUGH_START: Final = 3.0
"""Seconds that the first load of all models may spend on further evidence about their batching."""
_CHOICE_START: Final = 3.0
"""Seconds that it may spend on runs that choose their threads."""


class Models(CatalogueView[ServedModel]):
    """Models of one repository.

    Args:
        root: The repository.
        options: Options for every model.
        on_change: Called when readiness changes.
        empty_is_ready: Be ready without any model that is to be served.
        before_load: Awaited before :meth:`load`; its errors are those of the load.
    """

    def __init__(
        self,
        root: Path,
        options: LoadOptions,
        on_change: Callable[[], None] = lambda: None,
        *,
        empty_is_ready: bool = True,
        before_load: BeforeLoad | None = None,
    ) -> None:
        super().__init__(empty_is_ready=empty_is_ready)
        self._root = root
        self._options = options
        self._on_change = on_change
        self._before_load = before_load
        self._loads = LoadTasks()
        self._draining = DrainingModels()

    async def load_all(
        self,
        only: Collection[str] | None = None,
        patience: float | None = None,
        left_out: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Loads models, one after the other, and starts their batchers.

        A load that takes long goes on beside the next ones. It is waited for only while no model can be served; its
        model is not ready before it is done.

        Args:
            only: Names of the models to load; None loads all.
            patience: Seconds after which a load counts as long; None waits for every load.
            left_out: Name -> reason for which a model is not loaded now.

        Raises:
            RepositoryNotFoundError: The repository is no folder.
            UnknownModelError: One of ``only`` is not in it.
        """
        names = await asyncio.to_thread(list_models, self._root)
        if only is not None and (unknown := sorted(set(only) - set(names))):
            raise UnknownModelError(f"there is no model '{unknown[0]}' in {self._root}; it has {listed(names)}")
        for name in names:
            self._entries[name] = ModelEntry(loaded=only is None or name in only)
        count = sum(entry.loaded for entry in self._entries.values())
        thorough = min(self._options.thorough_seconds, _THOROUGH_START / max(1, count))
        choice = min(self._options.choice_seconds, _CHOICE_START / max(1, count))
        options = replace(self._options, thorough_seconds=thorough, choice_seconds=choice)
        loads: set[asyncio.Task[None]] = set()
        for name, entry in self._entries.items():
            if entry.loaded and name in left_out:
                entry.faults = {None: left_out[name]}
            elif entry.loaded:
                entry.faults = {None: LOADING}
                load = await self._loads.begin(entry.lock, partial(self._load_first, entry, name, options))
                loads.add(load)
                await asyncio.wait((load,), timeout=patience)
        while loads := {load for load in loads if not load.done()}:  # each of them has had its time
            if any(state.ready for state in self.states()):
                break
            await asyncio.wait(loads, timeout=patience)
        for name, entry in self._entries.items():
            if LOADING in entry.faults.values():
                _log.warning("model '%s' is still being loaded; the others are served without it until then", name)

    async def _load_first(self, entry: ModelEntry[ServedModel], name: str, options: LoadOptions) -> None:
        served, faults = await load_versions(self._root, name, options, {}, self._on_change)
        self._draining.add(_replace(entry, served, faults).values())
        self._on_change()

    async def load(self, name: str, override: ModelConfig | None = None) -> None:
        """Loads a model, or loads it again as it is on disk now.

        The served versions change in one step, once every wanted version is loaded and warm. Where one cannot be, the
        versions before stay. A load that has begun goes on if its caller is cancelled, unless the server stops.

        Args:
            name: The model.
            override: Configuration in place of its config.pbtxt until it is loaded again.

        Raises:
            UnknownModelError: There is no such model.
            LoadFailedError: A version cannot be loaded.
            StoppingError: The server is stopping.
        """
        if self._before_load is not None:
            await self._before_load(name, override)
        try:
            await asyncio.to_thread(list_versions, self._root, name)
        except ModelNotFoundError as error:
            raise UnknownModelError(str(error)) from error
        entry = self._entries.setdefault(name, ModelEntry(loaded=False))
        await self._loads.run(name, entry.lock, partial(self._load_into, entry, name, override))

    async def _load_into(self, entry: ModelEntry[ServedModel], name: str, override: ModelConfig | None) -> None:
        from_call = "" if override is None else " with the config of the call in place of its config.pbtxt"
        self._check_running(name)
        served, faults = await self._load(name, entry.served, override)
        if faults and entry.served:
            self._draining.add(served.values())
            reasons = "; ".join(faults.values())
            raise LoadFailedError(f"model '{name}' was not loaded again{from_call}, what was served stays: {reasons}")
        self._draining.add(_replace(entry, served, faults).values())
        self._on_change()
        if faults:
            raise LoadFailedError(f"model '{name}' was not loaded{from_call}: {'; '.join(faults.values())}")

    async def unload(self, name: str) -> None:
        """Takes a model out; requests that were admitted are still answered. An unknown model is out already.

        Raises:
            StoppingError: The server is stopping.
        """
        entry = self._entries.get(name)
        if entry is None:
            self._check_running(name)
            return
        async with entry.lock:
            self._check_running(name)
            old, entry.served, entry.faults, entry.loaded = entry.served, {}, {}, False
            self._draining.add(old.values())
        self._on_change()

    async def forget(self, name: str) -> None:
        """Unloads a model that is not in the repository any more, and its name with it."""
        if name in self._entries:
            await self.unload(name)
            del self._entries[name]

    async def _load(
        self, name: str, before: dict[int, ServedModel], override: ModelConfig | None = None
    ) -> tuple[dict[int, ServedModel], dict[int | None, str]]:
        return await load_versions(self._root, name, self._options, before, self._on_change, override)

    def _check_running(self, name: str) -> None:
        if self._stopping:
            raise StoppingError(f"model '{name}' is neither loaded nor unloaded, as the server is stopping")

    def counters(self) -> list[ModelCounters]:
        """Lists the counters of the models that were loaded."""
        return [state.served.counters for state in self.states() if state.served is not None]

    def waiting_rows(self) -> int:
        """Counts the rows that wait for an engine, of all models."""
        return sum(model.batcher.waiting_rows for entry in self._entries.values() for model in entry.served.values())

    def broken(self) -> list[str]:
        """Lists why models that were served cannot run any more, one sentence each."""
        served = [model for entry in self._entries.values() for model in entry.served.values()]
        return [f"model '{model.name}': {model.fault}" for model in served if model.fault is not None]

    async def statistics(self, name: str = "", version: str = "") -> list[pb.ModelStatistics]:
        """Tells the counters of one model, or of all where no name is given."""
        if not name:
            counters = self.counters()
        else:
            found = self.find(name, version)
            counters = [found.counters] if version else [entry for entry in self.counters() if entry.name == name]
        return [entry.message() for entry in counters]

    async def snapshots(self) -> list[dict[str, Any]]:
        """Tells all counters of every loaded version."""
        return [counters.snapshot() for counters in self.counters()]

    def stop(self) -> None:
        """Reports every model as not ready from now on, and abandons loads; requests are still answered."""
        if self._stopping:
            return
        self._stopping = True
        self._loads.abandon()
        self._on_change()

    async def drain(self, timeout: float) -> bool:
        """Refuses new requests, finishes those that were admitted, and closes the engines.

        Args:
            timeout: Seconds to wait for them.

        Returns:
            True if all of them finished in time, and no thread hangs in an engine.
        """
        deadline = asyncio.get_running_loop().time() + timeout
        self.stop()
        self.closing.set()
        for entry in self._entries.values():
            self._draining.add(entry.served.values())
        await self._loads.ended(timeout)
        return await self._draining.wait(max(0.0, deadline - asyncio.get_running_loop().time()))


def _replace(
    entry: ModelEntry[ServedModel], served: dict[int, ServedModel], faults: dict[int | None, str]
) -> dict[int, ServedModel]:
    """Puts loaded versions in the place of those before, which are returned."""
    old, entry.served, entry.faults, entry.loaded = entry.served, served, faults, True
    for model in served.values():
        model.take_over()
    return old

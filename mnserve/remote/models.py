"""Models of a server in a front end: found in the mirror of the catalogue, administered by the supervisor."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from mnserve.models.statistics import ModelCounters
from mnserve.protocol import service_pb2 as pb
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.remote.engines import RemoteEngines
from mnserve.remote.mirror import CatalogueMirror


class Authority(Protocol):
    """Process that administers the models of all others."""

    async def call(self, method: str, arguments: Mapping[str, Any]) -> Any:
        """Has something done, and returns what it told, in values of JSON.

        Raises:
            MnServeError: It could not be done.
        """


class RemoteModels(CatalogueMirror):
    """Models of a server, in a process that takes calls in.

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
        super().__init__(engines, counters, on_change, empty_is_ready=empty_is_ready)
        self._authority = authority

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

    async def snapshots(self) -> list[dict[str, Any]]:
        """Tells all counters of every loaded version, over all processes."""
        told: list[dict[str, Any]] = await self._authority.call("snapshots", {})
        return told

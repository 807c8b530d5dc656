"""A server as the process sees it, of one process or of several, with or without an object store behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mnserve.models.catalogue import ModelState
from mnserve.object_store.before_load import BeforeLoad
from mnserve.settings import ServeSettings
from mnserve.starting.addresses import Addresses


class AnyServer(Protocol):
    """A server, of one process or of several."""

    @property
    def states(self) -> list[ModelState]:
        """States of all models, served or not."""
        ...

    async def start(self) -> Addresses:
        """Loads the models, then listens."""
        ...

    async def stop(self) -> bool:
        """Stops the server; True if every admitted request was answered."""
        ...


MakeServer = Callable[[ServeSettings, BeforeLoad | None], AnyServer]
"""Makes a server; what is given beside the settings is awaited before a model is loaded on demand."""

"""A server whose repository is in an object store: it serves local copies, which follow the store."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

from mnserve.models.catalogue import ModelState
from mnserve.object_store.deadline import in_daemon
from mnserve.object_store.local_copy import in_words_of_url
from mnserve.object_store.mirror import Mirror
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.settings import ALL_MODELS, ServeSettings
from mnserve.starting.addresses import Addresses
from mnserve.starting.any_server import MakeServer

_log = logging.getLogger(__name__)


class StoredServer:
    """Copies the models, serves the copies, and follows the store where the settings say so.

    The server itself sees a local folder alone, whose files change when the store's do.

    Args:
        make_server: Makes the server.
        settings: Settings of the command line.

    Raises:
        SettingsError: The URL cannot work, or the package of its store is not installed.
        ModelCacheError: The cache cannot be written to.
    """

    def __init__(self, make_server: MakeServer, settings: ServeSettings) -> None:
        every = settings.model_control != "explicit" or ALL_MODELS in settings.load_model
        self._mirror = Mirror(
            settings.repository,
            settings.store,
            only=None if every else settings.load_model,
            keep_last=not settings.allow_empty,
        )
        self._settings = replace(settings, repository=str(self._mirror.folder))
        self._server = make_server(self._settings, self._fetch if settings.model_control == "explicit" else None)
        self._following: asyncio.Task[None] | None = None

    @property
    def states(self) -> list[ModelState]:
        """States of all models, served or not."""
        return self._server.states

    async def start(self) -> Addresses:
        """Copies the models, and starts the server.

        Raises:
            StoreError: The store does not answer, or refuses.
            MnServeError: The server cannot start.
        """
        await in_daemon(self._mirror.fetch)
        with in_words_of_url(self._mirror.folder, self._mirror.shown):
            addresses = await self._server.start()
        if self._settings.model_control == "poll":
            self._following = asyncio.get_running_loop().create_task(self._follow())
        return addresses

    async def stop(self) -> bool:
        """Stops the server, and removes its folder of copies; see :meth:`AnyServer.stop`."""
        self._mirror.stop()
        if self._following is not None:
            self._following.cancel()
        try:
            return await self._server.stop()
        finally:
            self._mirror.close()

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(self._settings.poll_seconds)
            try:
                await in_daemon(self._mirror.poll)
            except Exception:  # noqa: BLE001 (logged, and the next look may succeed)
                _log.exception("looking through the object store failed; what is served stays, and it is tried again")

    async def _fetch(self, name: str, override: ModelConfig | None) -> None:
        await in_daemon(lambda: self._mirror.fetch_model(name, override))

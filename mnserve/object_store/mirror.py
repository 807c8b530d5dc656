"""A repository of an object store as a local folder, which follows the store."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Collection
from pathlib import Path
from typing import Final

from mnserve.errors import (
    ModelNotFoundError,
    RepositoryError,
    StoppingError,
    StoreError,
    StoreUnreachableError,
    UnknownModelError,
)
from mnserve.object_store.cache import Cache
from mnserve.object_store.copies import CopySource
from mnserve.object_store.copying import Copying
from mnserve.object_store.log_filter import LogFilter
from mnserve.object_store.settings import StoreSettings
from mnserve.object_store.store import Store
from mnserve.object_store.url import parse_url
from mnserve.object_store.view import View
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.text.names import listed

_log = logging.getLogger(__name__)

_LOST: Final = 3
"""Models in one look that the store does not give, before the others are not asked for."""
_FIRST_DELAY: Final = 0.5
_LONGEST_DELAY: Final = 10.0


class Mirror:
    """Copies the models of a repository that are served, and puts them into a folder in Triton's layout.

    Its methods block, and are called by one thread at a time.

    Args:
        url: URL of the repository.
        settings: Settings of the cache.
        only: Models to copy; None for all.
        keep_last: Keep the models where the store has none left.

    Attributes:
        folder: The repository as a local folder; it has what was copied, and stand-ins of the other models.

    Raises:
        SettingsError: The URL cannot work, or the package of its store is not installed.
        ModelCacheError: The cache cannot be written to.
    """

    def __init__(
        self, url: str, settings: StoreSettings, *, only: Collection[str] | None = None, keep_last: bool = True
    ) -> None:
        parsed = parse_url(url)
        self.shown = parsed.shown
        """The URL without credentials."""
        self._store = Store(parsed, settings.store_timeout)
        cache = Cache(settings.cache_folder)
        self._patience = settings.store_patience
        self._stopped = threading.Event()
        self._only = None if only is None else set(only)
        self._keep_last = keep_last
        self._faults: dict[str, str] = {}
        """Model -> what keeps it from being copied."""
        self._left_out: dict[str, str] = {}
        self._away = False
        self._serial = threading.Lock()
        self._view = View(cache)
        self._copying = Copying(
            CopySource(store=self._store, cache=cache, limit=settings.model_cache_bytes, stopped=self._stopped),
            self._view,
        )
        self._log_filter = LogFilter(parsed.redactor)
        self.folder: Path = self._view.folder

    def fetch(self) -> None:
        """Copies the models for the first time. A store that does not answer is tried again for a while.

        Raises:
            StoreError: The store still does not answer, or refuses.
            StoppingError: :meth:`stop` was called.
        """
        deadline, delay = time.monotonic() + self._patience, _FIRST_DELAY
        while True:
            lost: dict[str, StoreUnreachableError] = {}
            try:
                lost = self._refresh()
                fault = next(iter(lost.values()), None)
            except StoreUnreachableError as error:
                fault = error
            if fault is None:
                return
            if (remaining := deadline - time.monotonic()) <= 0:
                break
            _log.warning("%s; it is tried again for %.0f s (--store-patience)", fault, remaining)
            if self._stopped.wait(min(delay * random.uniform(0.75, 1.25), max(0.05, remaining))):
                raise StoppingError("the server is stopping before its models were copied")
            delay = min(2 * delay, _LONGEST_DELAY)
        if not any(self._view.copy_of(name) for name in self._view.models()):
            raise fault
        for name, reason in lost.items():
            self._tell_fault(name, str(reason))

    def poll(self) -> None:
        """Copies what has changed. Where the store does not answer, everything stays, and the log says so once."""
        try:
            lost = self._refresh()
            fault: StoreError | None = next(iter(lost.values()), None)
        except StoreError as error:
            fault = error
        if fault is not None and not self._away:
            _log.error("what is served stays: %s", fault)
        if fault is None and self._away:
            _log.info("the object store of %s answers again", self.shown)
        self._away = fault is not None

    def fetch_model(self, name: str, override: ModelConfig | None = None) -> None:
        """Copies one model as it is in the store now, before it is loaded.

        Args:
            name: The model.
            override: Configuration in place of its config.pbtxt, which may select other versions.

        Raises:
            UnknownModelError: The store has no such model.
            RepositoryError: It cannot be copied; what was copied before stays.
        """
        with self._serial:
            self._copying.forget_failure(name)
            try:
                self._copying.update(name, override)
            except ModelNotFoundError as error:
                if name in self._view.models():
                    self._view.drop(name)
                raise UnknownModelError(str(error)) from error
            self._faults.pop(name, None)
            if self._only is not None:
                self._only.add(name)

    def stop(self) -> None:
        """Ends a download or a wait that goes on in another thread."""
        self._stopped.set()

    def close(self) -> None:
        """Removes the folder; the copies stay in the cache."""
        self.stop()
        self._view.close()
        self._log_filter.close()

    def _refresh(self) -> dict[str, StoreUnreachableError]:
        """Copies what has changed.

        Returns:
            The models that the store could not give now, with the reason.

        Raises:
            StoreError: The store does not answer, or refuses.
        """
        with self._serial:
            names, left_out = self._store.models()
            if new := [name for name in left_out if name not in self._left_out]:
                reasons = [f"'{name}' ({left_out[name]})" for name in new]
                _log.warning("left out of the model repository: %s", listed(reasons))
            self._left_out = left_out
            present = self._view.models()
            if not names and present and self._keep_last:
                raise StoreError(
                    f"the repository {self.shown} has no model left; put models there, or start the server with "
                    "--allow-empty"
                )
            lost: dict[str, StoreUnreachableError] = {}
            for name in names:
                if len(lost) >= _LOST:
                    lost[name] = next(iter(lost.values()))
                    continue
                try:
                    self._refresh_model(name, present)
                except StoreUnreachableError as error:
                    lost[name] = error
            for name in present - set(names):
                self._view.drop(name)
                self._faults.pop(name, None)
            return lost

    def _refresh_model(self, name: str, present: Collection[str]) -> None:
        if self._only is not None and name not in self._only:
            if name not in present:
                self._view.stand_in(name)
            return
        try:
            self._copying.update(name)
        except StoreUnreachableError:
            raise
        except ModelNotFoundError as error:
            self._view.drop(name)
            if self._faults.get(name) != str(error):
                _log.warning("left out of the model repository: %s", error)
                self._faults[name] = str(error)
        except RepositoryError as error:
            self._tell_fault(name, str(error))
        else:
            self._faults.pop(name, None)

    def _tell_fault(self, name: str, reason: str) -> None:
        if self._faults.get(name) == reason and name in self._view.models():
            return
        self._faults[name] = reason
        if self._view.copy_of(name) is None:
            self._view.stand_in(name, reason)  # loading it tells the reason
        else:
            _log.error("model '%s' stays as it is served: %s", name, reason)

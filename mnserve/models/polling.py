"""Polling of the repository for new, changed and deleted models."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Final

from mnserve.errors import LoadFailedError, MnServeError, RepositoryError, StoppingError, UnsupportedError
from mnserve.models.registry import Models
from mnserve.repository.reader import list_models
from mnserve.settings import Control

_log = logging.getLogger(__name__)

_EXPLICIT: Final = "explicit"


def check_explicit_control(control: Control) -> None:
    """Checks that callers may load and unload models.

    Raises:
        UnsupportedError: The server chooses its models itself.
    """
    if control != _EXPLICIT:
        raise UnsupportedError(
            f"callers load and unload models with --model-control {_EXPLICIT} alone, and this server has {control}"
        )


class Poller:
    """Looks for changes in a repository: loads new models, reloads changed ones, and unloads deleted ones.

    A model that cannot be loaded is not tried again before its files change.

    Args:
        root: The repository.
        models: The served models.
        seconds: Time between two looks.
    """

    def __init__(self, root: Path, models: Models, seconds: float) -> None:
        self._root = root
        self._models = models
        self._seconds = seconds
        self._seen: dict[str, object] = {}

    async def look(self) -> None:
        """Remembers the current files without loading models."""
        self._seen = await asyncio.to_thread(_fingerprints, self._root)

    async def run(self) -> None:
        """Polls until the task is cancelled."""
        while True:
            await asyncio.sleep(self._seconds)
            try:
                await self.poll()
            except RepositoryError as error:
                _log.error("the repository cannot be looked through, and what is served stays: %s", error)
            except StoppingError:
                return
            except Exception:  # noqa: BLE001 (logged, and the next look may succeed)
                _log.exception("looking through the repository failed; what is served stays, and it is tried again")

    async def poll(self) -> None:
        """Loads and unloads the models that have changed since the last look.

        Raises:
            RepositoryError: The repository cannot be read.
            StoppingError: The server is stopping.
        """
        current = await asyncio.to_thread(_fingerprints, self._root)
        before, self._seen = self._seen, current
        for name in before.keys() - current.keys():
            _log.info("model '%s' is gone from the repository", name)
            await self._models.forget(name)
        for name in sorted(current):
            if current[name] == before.get(name):
                continue
            try:
                await self._models.load(name)
            except StoppingError:
                raise
            except LoadFailedError:
                pass  # logged with its reason, and kept in the list of models
            except MnServeError as error:
                _log.error("model '%s' cannot be loaded: %s", name, error)


def _fingerprints(root: Path) -> dict[str, object]:
    """Returns model name -> a value that changes with the files of the model."""
    return {name: _fingerprint(root / name) for name in list_models(root)}


def _fingerprint(folder: Path) -> object:
    files = []
    try:
        paths = [*folder.glob("*"), *folder.glob("*/*")]
    except OSError:  # deleted during the walk; the next look sees the rest
        return None
    for path in paths:
        # Entries that start with a dot belong to a publish in progress.
        if any(part.startswith(".") for part in path.relative_to(folder).parts):
            continue
        try:
            status = path.stat()
        except OSError:
            continue
        if path.is_file():
            files.append((str(path.relative_to(folder)), status.st_mtime_ns, status.st_size, status.st_ino))
    return tuple(sorted(files))

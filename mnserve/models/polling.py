"""Polling of the repository for new, changed and deleted models."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from mnserve.errors import LoadFailedError, MnServeError, RepositoryError, StoppingError
from mnserve.models.registry import Models
from mnserve.repository.listing import look_through

_log = logging.getLogger(__name__)

LOAD_PATIENCE: Final = 10.0
"""Seconds after which the load of one model does not hold up the others, or the start, any more."""


class Poller:
    """Looks for changes in a repository: loads new models, reloads changed ones, and unloads deleted ones.

    A model that cannot be loaded is not tried again before its files change.

    Args:
        root: The repository.
        models: The served models.
        seconds: Time between two looks.
        allow_empty: Unload the last models, too, when they are gone; otherwise they stay.
        patience: Seconds after which a change of one model does not hold up those of the others any more.
    """

    def __init__(
        self,
        root: Path,
        models: Models,
        seconds: float,
        *,
        allow_empty: bool = False,
        patience: float = LOAD_PATIENCE,
    ) -> None:
        self._root = root
        self._allow_empty = allow_empty
        self._left_out: Mapping[str, str] = {}
        self._models = models
        self._seconds = seconds
        self._seen: dict[str, object] = {}
        self._patience = patience
        self._changes: dict[str, asyncio.Task[None]] = {}
        """Model name -> its change that goes on."""

    async def look(self) -> None:
        """Remembers the current files without loading models.

        Raises:
            RepositoryNotFoundError: The repository cannot be read.
        """
        self._seen, _ = await self._look_through()

    async def run(self) -> None:
        """Polls until the task is cancelled."""
        try:
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
        finally:
            for change in self._changes.values():
                change.cancel()

    async def poll(self) -> None:
        """Loads and unloads the models that have changed since the last look.

        A model whose folder is empty or whose link leads to nothing stays, and so do all where none is left: a drive
        may be unmounted. A change that takes long goes on beside the others, and its model is not looked at before
        it is done.

        Raises:
            RepositoryError: The repository cannot be read.
            StoppingError: The server is stopping.
        """
        current, left_out = await self._look_through()
        if not current and not self._allow_empty and any(map(self._models.is_served, self._seen)):
            _log.error(
                "no model is left in the repository %s, and what is served stays: mount its drive again; to serve "
                "nothing, stop the server, or start it with --allow-empty",
                self._root,
            )
            return
        before, self._seen = self._seen, current
        self._changes = {name: change for name, change in self._changes.items() if not change.done()}
        for name in self._changes:
            current.pop(name, None)
            if name in before:
                current[name] = before[name]
        for name in before.keys() - current.keys():
            if name in left_out and self._models.is_served(name):
                current[name] = before[name]
                _log.error("model '%s' stays as it is served, though its folder is now %s", name, left_out[name])
                continue
            _log.info("model '%s' is gone from the repository", name)
            await self._change(name, self._models.forget(name))
        for name in sorted(current):
            if current[name] != before.get(name):
                await self._change(name, self._load(name))

    async def _change(self, name: str, change: Coroutine[Any, Any, None]) -> None:
        """Makes a change of one model, and leaves it to itself where it takes long.

        Raises:
            StoppingError: The server is stopping.
        """
        task = self._changes[name] = asyncio.get_running_loop().create_task(change)
        await asyncio.wait((task,), timeout=self._patience)
        if task.done():
            del self._changes[name]
            task.result()
        else:
            task.add_done_callback(_retrieve)
            _log.warning("model '%s' is still being loaded; changes of the others go on beside it", name)

    async def _load(self, name: str) -> None:
        try:
            await self._models.load(name)
        except StoppingError:
            raise
        except LoadFailedError:
            pass  # logged with its reason, and kept in the list of models
        except MnServeError as error:
            _log.error("model '%s' cannot be loaded: %s", name, error)
        except Exception:  # noqa: BLE001 (one bad model must not stop the others)
            _log.exception("model '%s' cannot be loaded; it is tried again when its files change", name)

    async def _look_through(self) -> tuple[dict[str, object], Mapping[str, str]]:
        """Returns model name -> a value that changes with its files, and what is left out with the reason."""
        listing = await asyncio.to_thread(look_through, self._root)
        listing.log_left_out(self._left_out)
        self._left_out = listing.left_out
        return await asyncio.to_thread(_fingerprints, self._root, listing.models), listing.left_out


def _retrieve(change: asyncio.Task[None]) -> None:
    """Takes the error of a change that nobody waits for: it has no other than that the server is stopping."""
    if not change.cancelled():
        change.exception()


def _fingerprints(root: Path, names: Iterable[str]) -> dict[str, object]:
    return {name: _fingerprint(root / name) for name in names}


def _fingerprint(folder: Path) -> object:
    files = []
    try:
        paths = [path for pattern in ("*", "*/*", "*/*/*") for path in folder.glob(pattern)]
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

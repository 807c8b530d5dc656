"""Folder of one process with a link to the copy of each model: it is the repository that the process serves.

Copies that a view of a living process links to are not removed.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from pathlib import Path
from typing import Final

from mnserve.object_store.cache import Cache, explained, try_lock
from mnserve.repository.listing import CONFIG_NAME
from mnserve.repository.reader import UNAVAILABLE_NAME
from mnserve.text.names import printable

_STAND_INS: Final = ".stand-ins"


class View:
    """Folder of links, which lives as long as this object.

    Args:
        cache: The cache of the copies.

    Raises:
        ModelCacheError: The folder cannot be made.
    """

    def __init__(self, cache: Cache) -> None:
        remove_abandoned(cache)
        name = secrets.token_hex(8)
        self._lock_file = cache.views / f"{name}.lock"
        self._lock = try_lock(self._lock_file)
        self.folder = cache.views / name
        self._stand_ins: dict[str, Path] = {}
        """Model -> folder that stands in for it, or did."""
        with explained(cache.folder):
            (self.folder / _STAND_INS).mkdir(parents=True)

    def models(self) -> set[str]:
        """Lists the models in it."""
        return {name for name in os.listdir(self.folder) if not name.startswith(".")}

    def copy_of(self, name: str) -> Path | None:
        """Returns the copy that is linked for a model; None for a model without one."""
        with contextlib.suppress(OSError):
            target = self.folder / os.readlink(self.folder / name)
            if target.parent.name != _STAND_INS:
                return target
        return None

    def link(self, name: str, copy: Path) -> None:
        """Puts a copy in the place of what was linked for a model, in one step."""
        with explained(self.folder):
            temporary = self.folder / f".{secrets.token_hex(8)}"
            os.symlink(copy, temporary)
            os.replace(temporary, self.folder / name)

    def stand_in(self, name: str, reason: str = "") -> None:
        """Puts a model without files in, which is listed and cannot be loaded.

        Args:
            name: The model.
            reason: Sentence that tells why it cannot be; empty for one that was not asked for yet.
        """
        folder = self.folder / _STAND_INS / secrets.token_hex(8)
        with explained(self.folder):
            folder.mkdir()
            (folder / CONFIG_NAME).touch()
            if reason:
                (folder / UNAVAILABLE_NAME).write_text(printable(reason), encoding="utf-8")
        self.link(name, folder)
        if (before := self._stand_ins.pop(name, None)) is not None:
            shutil.rmtree(before, ignore_errors=True)
        self._stand_ins[name] = folder

    def drop(self, name: str) -> None:
        """Takes a model out."""
        with contextlib.suppress(OSError):
            os.unlink(self.folder / name)

    def close(self) -> None:
        """Removes the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
        if self._lock is not None:
            with contextlib.suppress(OSError):
                self._lock_file.unlink()
            os.close(self._lock)
            self._lock = None


def linked_copies(cache: Cache) -> set[str]:
    """Lists the copies that views of living processes link to."""
    remove_abandoned(cache)
    copies = set()
    for folder in cache.views.iterdir():
        if folder.suffix != ".lock":
            with contextlib.suppress(OSError):
                for link in folder.iterdir():
                    if link.is_symlink():
                        copies.add(os.path.normpath(folder / os.readlink(link)))
    return copies


def remove_abandoned(cache: Cache) -> None:
    """Removes the views of processes that were killed: nobody holds their locks."""
    for lock_file in cache.views.glob("*.lock"):
        handle = try_lock(lock_file)
        if handle is not None:
            shutil.rmtree(lock_file.with_suffix(""), ignore_errors=True)
            with contextlib.suppress(OSError):
                lock_file.unlink()
            os.close(handle)

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
_LOCK: Final = ".lock"
_NAMES: Final = "[0-9a-f]" * 16
"""Pattern of the names of views: what else lies in the folder is not ours."""


class View:
    """Folder of links, which lives as long as this object.

    Args:
        cache: The cache of the copies.

    Raises:
        ModelCacheError: The folder cannot be made.
    """

    def __init__(self, cache: Cache) -> None:
        remove_abandoned(cache)
        self._lock_file, handle = _new_lock(cache)
        self._lock: int | None = handle
        self.folder = self._lock_file.with_suffix("")
        self._stand_ins: dict[str, Path] = {}
        """Model -> folder that stands in for it, or did."""
        try:
            with explained(cache.folder):
                (self.folder / _STAND_INS).mkdir(parents=True)
        except BaseException:
            self.close()
            raise

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
        if self._lock is not None:
            _remove(self._lock_file, self._lock)
            self._lock = None


def linked_copies(cache: Cache) -> set[str]:
    """Lists the copies that views of living processes link to.

    A copy that is linked meanwhile is listed for sure where the caller holds the lock of its model's folder.

    Raises:
        ModelCacheError: A view cannot be read.
    """
    remove_abandoned(cache)
    copies = set()
    with explained(cache.views):
        for folder in _folders(cache):
            with contextlib.suppress(FileNotFoundError):  # its process has ended
                for link in folder.iterdir():
                    with contextlib.suppress(FileNotFoundError):  # it has just been renamed, or dropped
                        if link.is_symlink():
                            copies.add(os.path.normpath(folder / os.readlink(link)))
    return copies


def remove_abandoned(cache: Cache) -> None:
    """Removes the views of processes that were killed: nobody holds their locks, or there is no lock any more."""
    with explained(cache.views):
        for folder in _folders(cache):  # its lock was there before the folder, unless the view has ended
            if not folder.with_suffix(_LOCK).exists():
                shutil.rmtree(folder, ignore_errors=True)
        for lock_file in cache.views.glob(f"{_NAMES}{_LOCK}"):
            if (handle := try_lock(lock_file, make=False)) is not None:
                _remove(lock_file, handle)


def _new_lock(cache: Cache) -> tuple[Path, int]:
    """Makes a lock file and takes its lock, with another name where a process has found the file in between."""
    while True:
        lock_file = cache.views / f"{secrets.token_hex(8)}{_LOCK}"
        if (handle := try_lock(lock_file)) is not None:
            return lock_file, handle


def _remove(lock_file: Path, handle: int) -> None:
    """Removes a view whose lock is held; the lock goes last."""
    shutil.rmtree(lock_file.with_suffix(""), ignore_errors=True)
    with contextlib.suppress(OSError):
        lock_file.unlink()
    os.close(handle)


def _folders(cache: Cache) -> list[Path]:
    return [path for path in cache.views.glob(_NAMES) if path.is_dir()]

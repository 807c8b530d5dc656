"""A feature store that is being written: rows are put down as they come, and a killed process goes on where it was.

::

    STORE.partial/progress.json    key of the store, and rows of each split that are done
    STORE.partial/train/…          as in the finished store, which the folder becomes by a rename

Shapes: N rows of a split, B rows of a batch, d features.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from mntrain.atomic_files import temporary_folder, write_text_atomically
from mntrain.data.examples import IndexArray
from mntrain.data.split_record import SPLITS
from mntrain.errors import ConfigError, DataError
from mntrain.feature_store.key import key_differences
from mntrain.feature_store.store import CLASSIFIER, RECORD, SAMPLES, FeatureSplit
from mntrain.feature_store.writing import StoreContent, write_description
from mntrain.regular_files import read_text

_PROGRESS = "progress.json"
_LOCK = ".lock"
_OURS = {*SPLITS, RECORD, CLASSIFIER, SAMPLES, _PROGRESS, _LOCK}
_SECONDS_BETWEEN_SAVES = 2.0


class PartialStore:
    """Files of a store that is being written.

    Args:
        path: of the finished store.
        key: of the store.
        labels: of every split, int64 [N].
        features: d.
    """

    def __init__(self, path: Path, key: Mapping[str, Any], labels: Mapping[str, IndexArray], features: int) -> None:
        self.path, self.key, self.labels = path, key, labels
        self._folder = partial_folder(path)
        self._done = dict.fromkeys(SPLITS, 0)
        stored = _read(self._folder / _PROGRESS)
        new = stored is None
        if stored is not None:
            self._done = {name: int(stored["done"][name]) for name in SPLITS}
        self._rows = {name: self._open(name, (len(labels[name]), features), new=new) for name in SPLITS}
        if new:
            self.save()
        self._saved = time.monotonic()

    def done(self, split: str) -> int:
        """Rows of a split that are there."""
        return self._done[split]

    def append(self, split: str, features: NDArray[np.float32]) -> None:
        """Put down the next rows [B, d] of a split."""
        start = self._done[split]
        self._rows[split][start : start + len(features)] = features
        self._done[split] += len(features)
        if time.monotonic() - self._saved >= _SECONDS_BETWEEN_SAVES:
            self.save()
            self._saved = time.monotonic()

    def save(self) -> None:
        """Put down how far the store is; a process that goes on computes what came later again."""
        for rows in self._rows.values():
            assert isinstance(rows, np.memmap)
            rows.flush()
        write_text_atomically(
            self._folder / _PROGRESS, json.dumps({"key": self.key, "done": self._done}, allow_nan=False)
        )

    def splits(self) -> dict[str, FeatureSplit]:
        """Rows and labels of all splits, mapped."""
        return {name: FeatureSplit(features=self._rows[name], labels=self.labels[name]) for name in SPLITS}

    def finish(self, content: StoreContent) -> str:
        """Describe the store, and put it in its place; an older one there goes. Returns the digest."""
        self.save()
        digest = write_description(self._folder, content)
        (self._folder / _PROGRESS).unlink()
        with temporary_folder(self.path.parent) as around:
            if self.path.exists():
                self.path.rename(around / self.path.name)
            self._folder.rename(self.path)
        (self.path / _LOCK).unlink(missing_ok=True)
        return digest

    def _open(self, name: str, shape: tuple[int, int], *, new: bool) -> NDArray[np.float32]:
        folder, mode = self._folder / name, "w+" if new else "r+"
        folder.mkdir(exist_ok=True)
        file = folder / "features.npy"
        mapped: NDArray[np.float32] = np.lib.format.open_memmap(
            file, mode=mode, dtype=np.float32, shape=shape if new else None
        )
        if mapped.shape != shape or mapped.dtype != np.float32:
            raise DataError(f"{file} is damaged; write the store anew with --overwrite.")
        if new:
            # A full disk is told now: a write to mapped memory that finds no room would end the process.
            with file.open("r+b") as stream:
                os.posix_fallocate(stream.fileno(), 0, file.stat().st_size)
            np.save(folder / "labels.npy", self.labels[name])
        return mapped


def partial_folder(path: Path) -> Path:
    """Folder in which the store ``path`` is being written."""
    return path.with_name(f"{path.name}.partial")


@contextmanager
def writing_lock(path: Path) -> Iterator[None]:
    """Keep other processes from writing the store ``path`` while the block runs.

    Raises:
        ConfigError: another process writes it.
        DataError: it cannot be written, now or in the block.
    """
    folder = partial_folder(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / _LOCK)
        try:
            lock.acquire(blocking=False)
        except Timeout as error:
            raise ConfigError(f"Another process writes {path}; wait for it, or choose another folder.") from error
        try:
            yield
        finally:
            lock.release()
            _remove_if_unused(folder)
    except OSError as error:
        raise DataError(
            f"Feature store {path} cannot be written: {error.strerror or error}; make room, or choose another folder."
        ) from error


def check_place(path: Path, key: Mapping[str, Any], *, overwrite: bool) -> bool:
    """Check that a store may be written; returns whether it is there already, finished.

    Args:
        path: of the store.
        key: of the planned store.
        overwrite: a store of another key may go.

    Raises:
        ConfigError: something else lies there, or a store of another key.
    """
    if path.exists() and (not path.is_dir() or (any(path.iterdir()) and not (path / RECORD).is_file())):
        raise ConfigError(f"{path} is there already and is no feature store; choose another folder.")
    for folder, file in ((path, RECORD), (partial_folder(path), _PROGRESS)):
        values = _read(folder / file)
        if values is None:
            continue
        stored = values["key"] if file == _PROGRESS else values.get("data", {}).get("key")
        differences = "it does not say what it was made from" if stored is None else key_differences(stored, key)
        if not differences and not overwrite:
            if folder == path:
                return True
            continue
        if not overwrite:
            raise ConfigError(
                f"{folder} is a feature store of something else: {differences}. Choose another folder, or replace it "
                "with --overwrite."
            )
        if folder == path:
            _check_own(path)
        else:
            _clear(folder)
    return False


def _check_own(folder: Path) -> None:
    others = sorted(item.name for item in folder.iterdir() if item.name not in _OURS)
    if others:
        raise ConfigError(
            f"{folder} holds {others[0]!r}, which is no part of a feature store, so it is not replaced; move it away."
        )


def _clear(folder: Path) -> None:
    """Remove what was written of a store; the lock stays."""
    (folder / _PROGRESS).unlink()
    for name in SPLITS:
        shutil.rmtree(folder / name, ignore_errors=True)


def _remove_if_unused(folder: Path) -> None:
    """Remove the folder of a store that was not begun."""
    if folder.is_dir() and {item.name for item in folder.iterdir()} <= {_LOCK}:
        shutil.rmtree(folder)


def _read(file: Path) -> dict[str, Any] | None:
    """Read a JSON file of a store; None where it is not there."""
    try:
        values = json.loads(read_text(file))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{file} cannot be read ({error}); remove {file.parent} to write the store anew.") from error
    if not isinstance(values, dict):
        raise DataError(f"{file} is damaged; remove {file.parent} to write the store anew.")
    return values

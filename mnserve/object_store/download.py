"""Download of one file: resumed where it was interrupted, with its size and checksum compared."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from mnserve.errors import CorruptModelError, StoppingError, StoreUnreachableError
from mnserve.object_store.cache import explained
from mnserve.object_store.entries import StoredFile
from mnserve.object_store.failures import NoRangesError
from mnserve.object_store.store import CHUNK, Store


def download(store: Store, model: str, file: StoredFile, target: Path, stopped: threading.Event) -> str:
    """Downloads a file to ``target``, where its beginning may lie already. A file that does not fit is removed.

    Args:
        store: The store.
        model: Name of the model, for messages.
        file: The file.
        target: Where it goes; its name has the entity tag in it, so that what lies there is of this content.
        stopped: Set when the process ends.

    Returns:
        The SHA-256 of the file.

    Raises:
        StoreError: The store does not answer or refuses; what has arrived stays.
        CorruptModelError: What has arrived is not what the store says.
        ModelCacheError: The disk is full.
        StoppingError: ``stopped`` was set.
    """
    with explained(target.parent):
        offset = target.stat().st_size if target.exists() else 0
    if file.size is None or offset > file.size:
        target.unlink(missing_ok=True)
        offset = 0
    if offset != file.size:
        _resume(store, file, target, offset, stopped)
    return _checked(model, file, target)


def _resume(store: Store, file: StoredFile, target: Path, offset: int, stopped: threading.Event) -> None:
    for _ in range(2):  # a store that has a fault for a moment may say the same as one without ranges
        try:
            _append(store, file, target, offset, stopped)
        except NoRangesError:
            continue
        return
    pieces = store.read(file, 0)
    first = next(pieces, b"")  # what has arrived goes once the store gives the beginning
    with explained(target.parent):
        target.unlink()
    _append(store, file, target, 0, stopped, chain((first,), pieces))


def _append(
    store: Store,
    file: StoredFile,
    target: Path,
    offset: int,
    stopped: threading.Event,
    pieces: Iterator[bytes] | None = None,
) -> None:
    if pieces is None:
        pieces = store.read(file, offset) if file.size != 0 else iter(())
    with explained(target.parent):
        stream = open(target, "ab")  # noqa: SIM115 (errors of the store are no errors of the disk)
    with stream:
        begun = synced = offset
        for piece in pieces:
            if stopped.is_set():
                raise StoppingError("the server is stopping while a model is copied")
            offset += len(piece)
            with explained(target.parent):
                stream.write(piece)
                if offset - synced >= CHUNK:  # a loss of power leaves no more than that in doubt
                    stream.flush()
                    os.fdatasync(stream.fileno())
                    synced = offset
            if file.size is not None and offset > file.size:
                break  # one byte too many is kept, for the comparison to find
    if file.size is not None and offset < file.size:
        if offset == begun:  # more of the same would be no nearer to the end
            target.unlink(missing_ok=True)
        raise StoreUnreachableError(
            f"the object store of {store.url.shown} has ended the file '{file.path}' after {offset} of {file.size} "
            "bytes; try again later"
        )


def _checked(model: str, file: StoredFile, path: Path) -> str:
    with explained(path.parent):
        size, sha256 = path.stat().st_size, file_digest(path, "sha256")
        fault = None
        if file.size is not None and size != file.size:
            fault = f"more bytes than the {file.size} that the store tells"
        elif file.checksum is not None:
            kind, expected = file.checksum
            actual = (
                sha256 if kind == "sha256" else _git_digest(path, size) if kind == "git" else file_digest(path, kind)
            )
            if actual != expected:
                fault = (
                    f"the {'git object id' if kind == 'git' else kind.upper()} {actual}, but the store tells {expected}"
                )
        if fault is not None:
            path.unlink()
            raise CorruptModelError(
                f"model '{model}': the file '{file.path}' arrived with {fault}; it is damaged in the store or on its "
                "way: try again, or upload it again"
            )
    return sha256


def file_digest(path: Path, kind: str) -> str:
    """Returns the digest of a file in hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, kind).hexdigest()


def _git_digest(path: Path, size: int) -> str:
    """Returns the id that git gives to the content of a file."""

    def with_header() -> Any:
        return hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False)

    with path.open("rb") as stream:
        return hashlib.file_digest(stream, with_header).hexdigest()

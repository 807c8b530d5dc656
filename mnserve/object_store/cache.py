"""Folder of the copies: one for each repository and model, with a lock, and one for each process that uses copies.

::

    CACHE/repositories/ID/NAME/DIGEST/…        a copy of a model, complete and verified, never changed
    CACHE/repositories/ID/NAME/DIGEST.json     sizes, entity tags and SHA-256 of its files; its time is the last use
    CACHE/repositories/ID/NAME/.partial/KEY    a file on its way, to be gone on with
    CACHE/repositories/ID/NAME/.lock           held by the process that copies the model, or removes copies
    CACHE/views/RANDOM/NAME                    link to the copy that a process serves
    CACHE/views/RANDOM.lock                    held by that process
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mnserve.errors import ModelCacheError, StoppingError
from mnserve.object_store.url import StoreUrl

_LOCK_SECONDS: Final = 0.1
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "FSSPEC_S3_ENDPOINT_URL", "FSSPEC_S3", "HF_ENDPOINT")
"""Variables that say which store a URL is about."""


class Cache:
    """Folder of the copies of all repositories of a user.

    Args:
        folder: The folder; it is made where it is missing.

    Raises:
        ModelCacheError: The folder cannot be made or written to, or every user may write to it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repositories = folder / "repositories"
        self.views = folder / "views"
        with explained(folder):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.repositories.mkdir(exist_ok=True, mode=0o700)
            self.views.mkdir(exist_ok=True, mode=0o700)
            open_to_all = [path for path in (self.repositories, self.views) if path.stat().st_mode & stat.S_IWOTH]
        if open_to_all:  # the folder itself may be: a volume of a container often is
            raise ModelCacheError(
                f"every user of this machine may write to {open_to_all[0]}, and so replace models that are served; "
                "take that right away, or name another folder with --model-cache"
            )
        if not os.access(self.views, os.W_OK):
            raise ModelCacheError(
                f"the folder {folder} for copies of models is not writable; name another with --model-cache"
            )

    def model_folder(self, url: StoreUrl, name: str) -> Path:
        """Returns the folder of the copies of one model; makes it where it is missing."""
        place = "\0".join([url.scheme, url.path, *(os.environ.get(name, "") for name in _ENDPOINTS)])
        folder = self.repositories / hashlib.sha256(place.encode()).hexdigest()[:16] / name
        with explained(self.folder):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder


@contextlib.contextmanager
def locked(folder: Path, stopped: threading.Event) -> Iterator[None]:
    """Holds the lock of a model's folder; waits while another process copies the model.

    Raises:
        StoppingError: ``stopped`` was set meanwhile.
    """
    while (handle := try_lock(folder / ".lock")) is None:
        if stopped.wait(_LOCK_SECONDS):
            raise StoppingError("the server is stopping while another process copies the model")
    try:
        yield
    finally:
        os.close(handle)


def try_lock(path: Path, *, make: bool = True) -> int | None:
    """Takes a lock, for as long as the returned file is open.

    Args:
        path: The lock file. Only its holder may remove it, and only one whose name is not used again.
        make: Make the file where it is missing.

    Returns:
        The open file; None where another process has the lock, or has removed the file.
    """
    with explained(path.parent):
        try:
            handle = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if make else 0), 0o600)
        except FileNotFoundError:
            if make:
                raise
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(handle).st_nlink:
                return handle
        except BlockingIOError:
            pass
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # a file that is removed is no lock: others cannot find it
        return None


@contextlib.contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Makes errors of the disk ours.

    Raises:
        ModelCacheError: The folder cannot be written to, or its disk is full.
    """
    try:
        yield
    except OSError as error:
        raise ModelCacheError(
            f"cannot write the copy of a model in {folder}: {error.strerror or error}; make room or let this user "
            "write there, or name another folder with --model-cache"
        ) from error

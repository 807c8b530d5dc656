"""Atomic writes: a result file is complete or absent."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import stat
from pathlib import Path

from mnserve.errors import OutputError

_PREFIX = ".mnserve-"


def check_writable(path: Path) -> None:
    """Checks before any work that its result can be written to ``path``.

    Raises:
        OutputError: The folder does not exist or is not writable, or ``path`` is a folder, a device, a pipe, or too
            long.
    """
    target = _target(path)
    folder = target.parent
    if not os.path.isdir(folder):  # unlike Path.is_dir, False for names that are too long
        raise OutputError(f"cannot write {path}: the folder {folder} does not exist; make it first")
    longest = os.pathconf(folder, "PC_NAME_MAX")
    if len(os.fsencode(target.name)) > longest:
        raise OutputError(f"cannot write {path}: names of files have at most {longest} bytes there; give a shorter one")
    if path.is_dir():
        raise OutputError(f"cannot write {path}: it is a folder; give the name of a file")
    if path.exists() and not path.is_file():  # a rename would replace the device or pipe itself
        raise OutputError(f"cannot write {path}: it is a device or a pipe; give the name of a file")
    if not os.access(folder, os.W_OK):
        raise OutputError(f"cannot write {path}: the folder {folder} is not writable; choose another place")


def write_atomically(path: Path, content: bytes) -> None:
    """Writes a file beside ``path`` and renames it, so that readers and interruptions never meet half a file.

    A link stays a link, and its target is written. An existing file keeps its permissions.

    Raises:
        OutputError: The file cannot be written; ``path`` is unchanged.
    """
    target = _target(path)
    try:
        _remove_abandoned(target.parent)
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
        temporary, handle = _open_locked(target.parent, 0o666 if mode is None else mode)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
                stream.flush()
                if mode is not None:
                    temporary.chmod(mode)  # whatever the umask says
                os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}; choose another place") from error


def _open_locked(folder: Path, mode: int) -> tuple[Path, int]:
    """Makes a temporary file, and holds a lock on it until it is closed: other writers leave it alone."""
    while True:
        path = folder / f"{_PREFIX}{secrets.token_hex(6)}"
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with contextlib.suppress(OSError):  # file systems without locks: there the others cannot take it either
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            return path, handle
        os.close(handle)  # another writer found it before it was locked


def _remove_abandoned(folder: Path) -> None:
    """Removes temporary files of this user whose writer was killed: nobody holds a lock on them."""
    for path in folder.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            status = path.lstat()
            if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
                with path.open("rb") as stream:
                    fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    path.unlink()


def _target(path: Path) -> Path:
    """Returns the target of a link: a rename would replace the link and leave its target as it was."""
    return Path(os.path.realpath(path)) if os.path.islink(path) else path

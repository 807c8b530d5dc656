"""Atomic writes: a result file is complete or absent."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from mnserve.errors import OutputError


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
    temporary: str | None = None
    target = _target(path)
    try:
        handle, temporary = tempfile.mkstemp(prefix=".mnserve-", dir=target.parent)
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        os.chmod(temporary, _mode(target))
        os.replace(temporary, target)
        temporary = None
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}; choose another place") from error
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def _target(path: Path) -> Path:
    """Returns the target of a link: a rename would replace the link and leave its target as it was."""
    return Path(os.path.realpath(path)) if os.path.islink(path) else path


def _mode(target: Path) -> int:
    try:
        return stat.S_IMODE(os.stat(target).st_mode)
    except FileNotFoundError:
        return 0o666 & ~_umask()


def _umask() -> int:
    """Returns the file mode mask of the process, which can be read only by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask

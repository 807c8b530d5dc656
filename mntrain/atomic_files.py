"""Files and folders that appear whole or not at all, and that a killed process leaves as they were.

What is not finished lies in a folder ``.mntrain-…`` beside its target. Its owner holds a lock on it, which ends when
the process does. The next write beside it clears away folders that nobody holds.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_PREFIX = ".mntrain-"
# An earlier folder stands here between two renames, where the file system cannot exchange two names.
_REPLACED = "replaced"
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_NO_EXCHANGE = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EXDEV})


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Let ``write`` fill a temporary file, then put it in place in one step. Its permissions follow the umask.

    After a failure the earlier file still stands at ``path`` and no temporary file is left.

    Raises:
        OSError: ``path`` cannot be written, or is a folder, a device or a pipe, which a rename would replace.
    """
    if path.exists() and not path.is_file():
        raise FileExistsError(errno.EEXIST, "It is a folder, a device or a pipe", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(path.parent) as folder:
        temporary = folder / path.name
        temporary.touch()
        write(temporary)
        follow_umask(temporary)
        _sync(temporary)
        temporary.replace(path)


def write_text_atomically(path: Path, text: str) -> None:
    """Write a text by :func:`write_atomically`."""

    def write(temporary: Path) -> None:
        temporary.write_text(text, encoding="utf-8")

    write_atomically(path, write)


@contextmanager
def folder_atomically(path: Path) -> Iterator[Path]:
    """Open a temporary folder beside ``path`` that becomes ``path`` when the block ends without an error.

    An earlier folder is replaced in one step; after a failure of the block it is left as it was. A link is followed and
    stays.

    Raises:
        OSError: ``path`` cannot be written, or is no folder.
    """
    path = path.resolve()
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "It is not a folder", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(path.parent) as around:
        made = around / path.name
        made.mkdir()
        yield made
        for item in made.rglob("*"):
            if item.is_file():
                _sync(item)
        _put_in_place(made, path)


@contextmanager
def temporary_folder(parent: Path) -> Iterator[Path]:
    """Make a folder in ``parent`` for the duration of the block. Those that killed processes left are removed before.

    Raises:
        OSError: ``parent`` cannot be written.
    """
    remove_abandoned(parent)
    folder, lock = _make_locked(parent)
    try:
        yield folder
    finally:
        with contextlib.suppress(OSError):
            _clear(folder)
        if lock is not None:
            os.close(lock)


def remove_abandoned(parent: Path) -> None:
    """Remove folders of this user in ``parent`` whose owner was killed; a folder that it was replacing is put back."""
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        names = [entry.name for entry in entries if entry.name.startswith(_PREFIX)]
        for name in names:
            with contextlib.suppress(OSError):
                _remove_if_abandoned(parent / name)


def follow_umask(file: Path) -> None:
    """Give a file the permissions of a new one: some libraries write files that only their owner may read.

    The folder of the file was made for it, and so has the permissions that the umask allows.
    """
    file.chmod(file.parent.stat().st_mode & 0o666)


def _make_locked(parent: Path) -> tuple[Path, int | None]:
    """Make a folder and lock it; the lock is None where the file system has none."""
    while True:
        folder = parent / f"{_PREFIX}{secrets.token_hex(6)}"
        folder.mkdir()
        lock = None
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if os.path.samestat(folder.stat(), os.fstat(lock)):
                return folder, lock
        except FileNotFoundError:
            pass  # another process found it before it was locked
        except OSError:
            if lock is not None:
                os.close(lock)
            return folder, None
        if lock is not None:
            os.close(lock)


def _remove_if_abandoned(folder: Path) -> None:
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(lock).st_uid != os.geteuid():
            return
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _clear(folder)
    finally:
        os.close(lock)


def _clear(folder: Path) -> None:
    """Remove a temporary folder; what it was replacing is put back where nothing took its place."""
    if (folder / _REPLACED).is_dir():
        for item in (folder / _REPLACED).iterdir():
            if not os.path.lexists(folder.parent / item.name):
                item.rename(folder.parent / item.name)
    shutil.rmtree(folder)


def _put_in_place(made: Path, path: Path) -> None:
    """Rename a finished folder to ``path``; an earlier one ends up beside it in the temporary folder."""
    if not path.exists():
        made.rename(path)
        return
    if _exchange(made, path):
        return
    old = made.parent / _REPLACED / path.name
    old.parent.mkdir()
    path.rename(old)
    made.rename(path)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two names in one step; False where the system or the file system cannot.

    Raises:
        OSError: the names may not be changed.
    """
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    if renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NO_EXCHANGE:
        return False
    raise OSError(number, os.strerror(number), str(other))


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())

"""Files that appear whole or not at all."""

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Let ``write`` fill a temporary file beside ``path``, then put it in place in one step.

    After a failure the earlier file still stands at ``path`` and no temporary file is left.

    Raises:
        OSError: ``path`` cannot be written, or is a folder, a device or a pipe, which a rename would replace.
    """
    if path.exists() and not path.is_file():
        raise FileExistsError(errno.EEXIST, "It is a folder, a device or a pipe", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        temporary.chmod(0o666 & ~_umask())
        _sync(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text_atomically(path: Path, text: str) -> None:
    """Write a text by :func:`write_atomically`."""

    def write(temporary: Path) -> None:
        temporary.write_text(text, encoding="utf-8")

    write_atomically(path, write)


@contextmanager
def folder_atomically(path: Path) -> Iterator[Path]:
    """Open a temporary folder beside ``path`` that becomes ``path`` when the block ends without an error.

    An earlier folder is replaced; after a failure of the block it is left as it was. Names of unfinished folders start
    with a dot. A link is followed and stays.

    Raises:
        OSError: ``path`` cannot be written, or is no folder.
    """
    path = path.resolve()
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "It is not a folder", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    old: Path | None = None
    try:
        yield temporary
        temporary.chmod(0o777 & ~_umask())
        for item in temporary.rglob("*"):
            if item.is_file():
                _sync(item)
        if path.exists():
            old = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.old.")) / path.name
            path.rename(old)
        try:
            temporary.rename(path)
        except BaseException:  # an interrupt between the two renames too
            if old is not None:
                old.rename(path)
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        if old is not None:
            shutil.rmtree(old.parent, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())

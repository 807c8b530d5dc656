"""Scratch folder: files of an export before they are published."""

import errno
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mnexport.errors import ScratchError
from mnexport.signals import deferred, undisturbed

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make a folder in the system's temporary folder, and remove it afterwards.

    Raises:
        ScratchError: the folder cannot be made, or the disk fills up while something is written.
    """
    folder: tempfile.TemporaryDirectory[str] | None = None
    try:
        # A signal between the making of the folder and its name would leave it behind.
        with deferred():
            folder = _make_folder()
        yield Path(folder.name)
    except OSError as error:
        if folder is None or error.errno not in _FULL:
            raise
        raise ScratchError(
            f"{folder.name} is full: {error.strerror}. Make room, or set TMPDIR to a folder on a larger disk. Nothing "
            "was published."
        ) from error
    finally:
        if folder is not None:
            with undisturbed():
                folder.cleanup()


def _make_folder() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="mnexport-")
    except OSError as error:
        raise ScratchError(
            f"There is no temporary folder to work in ({error.strerror}); set TMPDIR to one that can be written. "
            "Nothing was published."
        ) from error

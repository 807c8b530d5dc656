"""Standard output that is closed, full, or cannot show every character: no reason for a traceback."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable
from typing import Final

from mnserve.errors import OutputError

_WRITE_ERRORS: Final = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
_READER_LEFT: Final = 1
"""Exit code where whoever read standard output has left, as ``head`` does: not all was done, and nobody asks why."""


def show_any_text() -> None:
    """Lets the standard streams write characters that their encoding does not have as escapes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def flushed(run: Callable[[], int]) -> int:
    """Calls ``run`` and makes sure that what it wrote to standard output has arrived.

    Returns:
        What ``run`` returned, or 1 where the reader of standard output has left.

    Raises:
        OutputError: standard output cannot be written to, for instance because a disk is full.
    """
    try:
        try:
            return run()
        finally:
            sys.stdout.flush()
    except OSError as error:
        # Writing to a stream names no file, and every file that is opened by name has its own handling.
        if error.filename is not None or error.errno not in _WRITE_ERRORS:
            raise
        _discard_output()
        if isinstance(error, BrokenPipeError):
            return _READER_LEFT
        raise OutputError(
            f"cannot write to standard output: {error.strerror or error}; make room, or redirect it elsewhere"
        ) from error


def _discard_output() -> None:
    """Sends what was not written nowhere; Python would try again at its exit and complain."""
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())

"""Standard output that is closed, full, or lacks characters: reported in one sentence, without a traceback."""

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
"""Exit code after the reader of standard output has left, as ``head`` does: the work is incomplete, without a fault."""


def show_any_text() -> None:
    """Lets the standard streams write escapes in place of characters that their encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def flushed(run: Callable[[], int]) -> int:
    """Calls ``run`` and flushes standard output.

    Returns:
        The result of ``run``, or 1 where the reader of standard output has left.

    Raises:
        OutputError: Standard output cannot be written to, for instance because a disk is full.
    """
    try:
        try:
            return run()
        finally:
            sys.stdout.flush()
    except OSError as error:
        # An error of a stream names no file. Files that are opened by name have their own handling.
        if error.filename is not None or error.errno not in _WRITE_ERRORS:
            raise
        _discard_output()
        if isinstance(error, BrokenPipeError):
            return _READER_LEFT
        raise OutputError(
            f"cannot write to standard output: {error.strerror or error}; make room, or redirect it elsewhere"
        ) from error


def _discard_output() -> None:
    """Redirects standard output to the null device, since Python would flush again at exit and complain."""
    with open(os.devnull, "wb") as null_device:
        os.dup2(null_device.fileno(), sys.stdout.fileno())

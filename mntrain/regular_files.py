"""Files from outside, which are opened only if they are regular: opening a pipe waits for a writer, maybe for ever."""

import errno
import os
import stat
from pathlib import Path
from typing import Final

_MOST_BYTES: Final = 64 * 1024 * 1024


def regular(path: Path) -> Path:
    """Return ``path`` to be opened.

    Raises:
        OSError: ``path`` is a pipe, a socket or a device. Folders and missing files are left to whoever opens them.
    """
    try:
        kind = os.stat(path).st_mode
    except (OSError, ValueError):
        return path
    if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
        raise OSError(errno.EINVAL, "It is a pipe, a socket or a device, not a file")
    return path


def read_text(path: Path) -> str:
    """Read a text file in UTF-8, with or without a byte order mark.

    Raises:
        OSError: ``path`` cannot be read, is no regular file, or has more than 64 MiB.
        UnicodeDecodeError: it is not UTF-8.
    """
    with regular(path).open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise OSError(errno.EFBIG, f"It has more than {_MOST_BYTES} bytes, and no more are read of a text")
    return content.decode("utf-8-sig")

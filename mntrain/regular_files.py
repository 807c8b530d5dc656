"""Files from outside, which are opened only if they are regular: opening a pipe waits for a writer, maybe for ever."""

import errno
import os
import stat
from pathlib import Path


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

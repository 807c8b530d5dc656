"""Files of certificates, keys and tokens: read whole, and only if they are regular files."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path
from typing import Final

from mnserve.errors import CredentialsError

_log = logging.getLogger(__name__)

_MAX_BYTES: Final = 2**20
_GROUP_AND_OTHERS: Final = 0o077


def read_credentials(path: Path, option: str, *, secret: bool) -> bytes:
    """Reads the file that an option names.

    Args:
        path: The file.
        option: Name of the option, for messages.
        secret: Log a warning if other users can access the file.

    Raises:
        CredentialsError: The file cannot be read.
    """
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):  # reading from a pipe could block for ever
            raise CredentialsError(f"{option} {path} is a folder, a device or a pipe; give the name of a file")
        if status.st_size > _MAX_BYTES:
            raise CredentialsError(
                f"{option} {path} has {status.st_size} bytes, more than the limit of {_MAX_BYTES}; is it the right "
                "file?"
            )
        content = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        reason = getattr(error, "strerror", None) or error
        raise CredentialsError(
            f"{option} {path} cannot be read: {reason}; correct the name or the permissions"
        ) from error
    if secret and status.st_mode & _GROUP_AND_OTHERS:
        mode = stat.S_IMODE(status.st_mode)
        _log.warning("%s %s can be used by others (mode %04o); `chmod 600` it", option, path, mode)
    return content

"""Turn ``data.path`` into a path on this machine."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from mntrain.errors import DataError


def local_path(path: str) -> Path:
    """Return ``path`` with a leading ``~`` replaced by the home folder; one of an unknown user is left as it is.

    Raises:
        DataError: a name in it is longer than any file's can be, which ``pathlib`` does not take for missing.
    """
    full = os.path.expanduser(path)
    try:
        os.stat(full)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise DataError(
                f"'{path[:40]}…' does not exist: it has {len(path)} characters, more than a file's name can have; "
                "check data.path."
            ) from error
    except ValueError:
        pass  # A zero byte, which the error for a missing file shows.
    return Path(full)

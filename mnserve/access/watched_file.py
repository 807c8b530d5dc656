"""Content of files that may change while they are in use."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from mnserve.errors import CredentialsError

_log = logging.getLogger(__name__)

Content = TypeVar("Content")


class WatchedFiles(Generic[Content]):
    """What files say, read again once one of them changes. A new state that cannot be used leaves the old one in force.

    May be used by several threads.

    Args:
        paths: The files.
        read: Reads and checks them.

    Raises:
        CredentialsError: What ``read`` says about the files as they are now.
    """

    def __init__(self, paths: Sequence[Path], read: Callable[[], Content]) -> None:
        self._paths = tuple(paths)
        self._read = read
        self._lock = threading.Lock()
        self._seen = self._fingerprint()  # before the content, so that no change between the two is missed
        self.content = read()

    def look(self) -> bool:
        """Reads again if a file has changed.

        Returns:
            Whether the content is a new one.
        """
        with self._lock:
            found = self._fingerprint()
            if found == self._seen:
                return False
            self._seen = found
            try:
                self.content = self._read()
            except CredentialsError as error:
                _log.warning("%s; what was read before stays in force", error)
                return False
            _log.info("read again: %s", ", ".join(map(str, self._paths)))
            return True

    def _fingerprint(self) -> tuple[object, ...]:
        return tuple(_state(path) for path in self._paths)


def _state(path: Path) -> tuple[int, ...] | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_dev)

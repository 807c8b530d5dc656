"""Files that are read again when they change."""

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
    """Content of files, read again once one of them changes. Invalid new content leaves the old one in force.

    Safe to use from several threads.

    Args:
        paths: The files.
        read: Reads and checks the files.

    Raises:
        CredentialsError: The files cannot be used; raised by ``read``.
    """

    def __init__(self, paths: Sequence[Path], read: Callable[[], Content]) -> None:
        self._paths = tuple(paths)
        self._read = read
        self._lock = threading.Lock()
        self._last = self._fingerprint()  # before the content, so that no change between the two is missed
        self.content = read()

    def refresh(self) -> bool:
        """Reads the files again if one of them has changed.

        Returns:
            True if the content is new.
        """
        with self._lock:
            current = self._fingerprint()
            if current == self._last:
                return False
            self._last = current
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

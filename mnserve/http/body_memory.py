"""Memory of the bodies that requests of HTTP hold at a time, in one process."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from types import TracebackType
from typing import Final

from mnserve.access.refused_calls import RefusedCalls
from mnserve.errors import TooManyCallsError

FREE_BYTES: Final = 65_536
"""Bytes of each body that do not count, so that large bodies never keep small ones out."""
_PATIENCE: Final = 10.0
"""Seconds for a body to arrive, once the memory of others is missing."""


class BodyMemory:
    """Bounds the bytes of all bodies.

    A text of 64 KiB becomes 64 MiB where it is decompressed, and each connection may send one.

    Args:
        most: Bytes that they may hold together.
        refused: Counts the bodies for which there was no room.
    """

    def __init__(self, most: int, refused: RefusedCalls) -> None:
        self.most = most
        self.held = 0
        """Bytes that are held."""
        self.unpacking = asyncio.Lock()
        """Held while a body is decompressed: many at a time would take each other's memory, and none become whole."""
        self._refused = refused
        self._lock = threading.Lock()
        self.arriving: dict[HeldBody, tuple[float, asyncio.Timeout]] = {}
        """Body that counts and is not whole yet -> monotonic time since which it counts, and the time that it has."""

    def add(self, nbytes: int) -> bool:
        """Holds so many bytes more, or fewer where they are negative; called in any thread.

        Returns:
            False where there is no room for them.
        """
        with self._lock:
            if nbytes > 0 and self.held + nbytes > self.most:
                return False
            self.held += nbytes
            return True

    def refusal(self) -> TooManyCallsError:
        """Counts a body for which there is no room, ends the slowest one that arrives, and returns the error."""
        self._refused.count("PLACES")
        began, limit = min(self.arriving.values(), key=lambda times: times[0], default=(math.inf, None))
        if limit is not None and time.monotonic() - began > _PATIENCE and not limit.expired():
            limit.reschedule(asyncio.get_running_loop().time())
        return TooManyCallsError(
            f"bodies of requests hold {self.held} bytes, and together they may hold {self.most}; try again later, or "
            "start the server with a larger --max-queue-bytes"
        )


class HeldBody:
    """What one body holds, until the block ends.

    Args:
        memory: Memory of all bodies.
    """

    def __init__(self, memory: BodyMemory) -> None:
        self.memory = memory
        """Memory of all bodies."""
        self._size = 0
        self.counted = 0
        """Its bytes that count."""
        self._limit: asyncio.Timeout | None = None
        self._lock = threading.Lock()
        self._ended = False

    def __enter__(self) -> HeldBody:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._lock:  # a thread may still decompress what nobody waits for any more
            self._ended = True
            self.memory.add(-self.counted)

    def arrives(self, limit: asyncio.Timeout) -> None:
        """Notes that the body arrives, within a time that may be cut short once some of it counts."""
        self._limit = limit

    def arrived(self) -> None:
        """Notes that it does so no more."""
        self._limit = None
        self.memory.arriving.pop(self, None)

    def shrink(self, nbytes: int) -> None:
        """Gives so many bytes back."""
        with self._lock:
            self._size -= nbytes
            spare = self.counted - max(0, self._size - FREE_BYTES)
            if not self._ended:
                self.counted -= spare
                self.memory.add(-spare)

    def grow(self, nbytes: int) -> bool:
        """Takes so many bytes more; called in one thread at a time.

        Returns:
            False where there is no room for them.
        """
        if self._size + nbytes <= FREE_BYTES:
            self._size += nbytes
            return True
        with self._lock:
            missing = max(0, self._size + nbytes - FREE_BYTES) - self.counted
            if self._ended or not self.memory.add(missing):
                return False
            self._size += nbytes
            self.counted += missing
        if self._limit is not None:
            self.memory.arriving.setdefault(self, (time.monotonic(), self._limit))
        return True

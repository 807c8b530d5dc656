"""Counters that one process writes and others read."""

from __future__ import annotations

from typing import Final, Self

from mnserve.channel.memory import SharedMemory

CELL_BYTES: Final = 8
"""Bytes of a counter, an int64."""


class CounterPage:
    """A row of int64 counters in shared memory with one writer; a reader finds each as it was at some moment.

    Args:
        memory: Memory of the counters; it is closed with this object.
    """

    _NAME = "mnserve-counters"

    def __init__(self, memory: SharedMemory) -> None:
        self._memory = memory
        self.cells: memoryview[int] = memory.view.cast("q")
        """The counters."""

    @classmethod
    def create(cls, count: int) -> Self:
        """Makes a row of zeros.

        Args:
            count: Number of counters, at least 1.
        """
        return cls(SharedMemory.create(count * CELL_BYTES, cls._NAME))

    @classmethod
    def from_fd(cls, fd: int) -> Self:
        """Opens a row that another process has made, and takes its descriptor over.

        Raises:
            ValueError: It is no such row.
        """
        return cls(SharedMemory.from_fd(fd))

    @property
    def fd(self) -> int:
        """File descriptor, to be sent to other processes."""
        return self._memory.fd

    def close(self) -> None:
        """Gives the memory up; the counters cannot be read any more."""
        self.cells.release()
        self._memory.close()

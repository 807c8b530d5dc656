"""Cells that several processes write, under locks that end with the process that holds them."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from threading import Lock
from typing import Self

from mnserve.channel.memory import SharedMemory
from mnserve.channel.pages import CELL_BYTES


class LockedCells:
    """A row of int64 cells in shared memory.

    A lock belongs to a process, and a process that dies gives up what it holds. One object per process only: closing
    any descriptor of the same memory ends all locks that the process has on it.

    Args:
        memory: Memory of the cells; it is closed with this object.
    """

    def __init__(self, memory: SharedMemory) -> None:
        self._memory = memory
        self._threads = Lock()
        self.cells: memoryview[int] = memory.view.cast("q")
        """The cells; to be changed under their lock."""

    @classmethod
    def create(cls, count: int) -> Self:
        """Makes a row of zeros.

        Args:
            count: Number of cells, at least 1.
        """
        return cls(SharedMemory.create(count * CELL_BYTES, "mnserve-cells"))

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

    @contextlib.contextmanager
    def locked(self, first: int, count: int = 1) -> Iterator[memoryview[int]]:
        """Locks some cells against all other threads and processes; hold them for microseconds.

        Args:
            first: Index of the first.
            count: Number of cells.

        Returns:
            All cells.
        """
        start, nbytes = first * CELL_BYTES, count * CELL_BYTES
        with self._threads:
            fcntl.lockf(self._memory.fd, fcntl.LOCK_EX, nbytes, start)
            try:
                yield self.cells
            finally:
                fcntl.lockf(self._memory.fd, fcntl.LOCK_UN, nbytes, start)

    def add(self, index: int, amount: int) -> int:
        """Adds to a cell.

        Returns:
            Its value after that.
        """
        with self.locked(index) as cells:
            cells[index] += amount
            return cells[index]

    def close(self) -> None:
        """Gives the memory up; the cells cannot be used any more."""
        self.cells.release()
        self._memory.close()

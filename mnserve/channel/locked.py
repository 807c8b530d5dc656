"""Cells that several processes write, under locks that end with the process that holds them."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from threading import Lock

from mnserve.channel.memory import SharedMemory
from mnserve.channel.pages import CELL_BYTES, CounterPage


class LockedCells(CounterPage):
    """A row of int64 cells in shared memory with several writers, each of which changes them under their lock.

    A lock belongs to a process, and a process that dies gives up what it holds. One object per process only: closing
    any descriptor of the same memory ends all locks that the process has on it.

    Args:
        memory: Memory of the cells; it is closed with this object.
    """

    _NAME = "mnserve-cells"

    def __init__(self, memory: SharedMemory) -> None:
        super().__init__(memory)
        self._threads = Lock()

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

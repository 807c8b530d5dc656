"""What an engine process does, in a page of shared memory that it writes and other processes read.

Each endpoint, a served version under its number, has a row.
"""

from __future__ import annotations

from typing import Final

ROWS: Final = 8192
"""Rows of a page. Numbers count on, and of those with the same row only the newest is served."""
_CELLS: Final = 16
PAGE_CELLS: Final = ROWS * _CELLS
"""Cells of a page; memory is used for those that were written alone."""
_RUNNING: Final = 4


class EngineRow:
    """Row of one endpoint.

    Args:
        page: The page.
        endpoint: Number of the endpoint.
    """

    def __init__(self, page: memoryview[int], endpoint: int) -> None:
        start = endpoint % ROWS * _CELLS
        self._cells = page[start : start + _CELLS]

    def begin(self, endpoint: int) -> None:
        """Clears the row for a new endpoint."""
        for cell in range(_CELLS):
            self._cells[cell] = 0
        self._cells[0] = endpoint

    def is_of(self, endpoint: int) -> bool:
        """True if no newer endpoint has taken the row."""
        return self._cells[0] == endpoint

    def wait(self, requests: int, rows: int) -> None:
        """Notes how many requests, and rows of them, wait for an engine."""
        self._cells[1], self._cells[2] = requests, rows

    @property
    def requests(self) -> int:
        """Requests that wait for an engine."""
        return self._cells[1]

    @property
    def rows(self) -> int:
        """Rows that wait for an engine."""
        return self._cells[2]

    @property
    def run_cell(self) -> memoryview[int]:
        """Cell of the successful runs."""
        return self._cells[3:_RUNNING]

    @property
    def running_cells(self) -> memoryview[int]:
        """Cells of the instances: not 0 while one is in a run."""
        return self._cells[_RUNNING:]

    @property
    def running(self) -> bool:
        """True while any instance is in a run."""
        return any(self.running_cells)

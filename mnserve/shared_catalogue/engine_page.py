"""What an engine process does, in a page of shared memory that it writes and other processes read.

Each endpoint, a served version under its number, has a row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

ROWS: Final = 8192
"""Rows of a page, which is also the most endpoints with rows of their own."""
_CELLS: Final = 16
PAGE_CELLS: Final = ROWS * _CELLS
"""Cells of a page; memory is used for those that were written alone."""
_RUNNING: Final = 3


def free_number(numbers: Iterator[int], served: Collection[int]) -> int:
    """Takes the next number of an endpoint whose row no other one has.

    Args:
        numbers: Numbers, counted on.
        served: Numbers of the endpoints that are there.
    """
    rows = {number % ROWS for number in served}
    return next(number for number in numbers if number % ROWS not in rows or len(rows) == ROWS)


class EngineRow:
    """Row of one endpoint.

    Args:
        page: The page.
        endpoint: Number of the endpoint.
    """

    def __init__(self, page: memoryview[int], endpoint: int) -> None:
        start = endpoint % ROWS * _CELLS
        self._cells = page[start : start + _CELLS]

    def begin(self) -> None:
        """Clears the row for a new endpoint."""
        for cell in range(_CELLS):
            self._cells[cell] = 0

    def wait(self, requests: int, rows: int) -> None:
        """Notes how many requests, and rows of them, wait for an engine."""
        self._cells[0], self._cells[1] = requests, rows

    @property
    def requests(self) -> int:
        """Requests that wait for an engine."""
        return self._cells[0]

    @property
    def rows(self) -> int:
        """Rows that wait for an engine."""
        return self._cells[1]

    @property
    def run_cell(self) -> memoryview[int]:
        """Cell of the successful runs."""
        return self._cells[2:_RUNNING]

    @property
    def running_cells(self) -> memoryview[int]:
        """Cells of the instances: not 0 while one is in a run."""
        return self._cells[_RUNNING:]

    @property
    def running(self) -> bool:
        """True while any instance is in a run."""
        return any(self.running_cells)

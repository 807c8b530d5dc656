"""Counters of requests in a page of shared memory: one page for each process that takes calls in.

A page begins with the counts of refused calls. Behind them each served version has a slot, which the supervisor gives
out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mnserve.access.refused_calls import REASONS
from mnserve.models.statistics import CELLS, LAST_MS

_FIRST_SLOT: Final = 32
"""Cell behind those of the refused calls, one for each reason."""
SLOTS: Final = 16_384
"""Slots of a page: served versions at a time, those that are gone for longest make room."""
PAGE_CELLS: Final = _FIRST_SLOT + SLOTS * CELLS
"""Cells of a page; memory is used for those that were written alone."""


def refused_of(page: memoryview[int]) -> memoryview[int]:
    """Returns the cells of the refused calls of a page."""
    return page[: len(REASONS)]


def slot_of(page: memoryview[int], slot: int) -> memoryview[int]:
    """Returns the cells of a slot of a page."""
    start = _FIRST_SLOT + slot * CELLS
    return page[start : start + CELLS]


def add_up(rows: Iterable[Iterable[int]]) -> list[int]:
    """Adds the counters of one version up, those of several processes: the last time is the latest of them."""
    total = [0] * CELLS
    for row in rows:
        cells = list(row)
        last = max(total[LAST_MS], cells[LAST_MS])
        total = [one + other for one, other in zip(total, cells, strict=True)]
        total[LAST_MS] = last
    return total

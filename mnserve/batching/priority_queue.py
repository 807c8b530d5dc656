"""Parts of a request queue: an order by rank, and the earliest of many times.

A change takes constant time where all ranks are equal and nothing has a time, and logarithmic time elsewhere. Entries
that no longer count are dropped when they come to the front, or once they are the majority.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterator
from typing import Final, Generic, TypeVar

from mnserve.execution.request import Rank

_Item = TypeVar("_Item")

_SLACK: Final = 8
"""Dropped entries that are not worth a clean-up."""


class PriorityQueue(Generic[_Item]):
    """Items in the order of their ranks; those of one rank in the order in which they came.

    A line is a plain dict, since it is quick and keeps the order. Looking for its first item passes by those that were
    removed, a nanosecond for each; so batches are taken from a line in one go.
    """

    __slots__ = ("_heap", "_lines", "_max_lines")

    def __init__(self) -> None:
        self._lines: dict[Rank, dict[int, _Item]] = {}
        self._heap: list[Rank] = []
        self._max_lines = _SLACK

    def __iter__(self) -> Iterator[_Item]:
        for rank in sorted(self._lines):
            yield from self._lines[rank].values()

    def append(self, rank: Rank, number: int, item: _Item) -> None:
        """Puts an item behind those of its rank."""
        line = self._lines.get(rank)
        if line is None:
            if len(self._heap) >= self._max_lines:
                self._drop_empty_lines()
            line = self._lines[rank] = {}
            heapq.heappush(self._heap, rank)
        line[number] = item

    def remove(self, rank: Rank, number: int) -> None:
        """Takes an item out; it has to be there."""
        del self._lines[rank][number]

    def line(self, rank: Rank) -> dict[int, _Item]:
        """Returns the items of a rank by number, in their order; they may be deleted there."""
        return self._lines.get(rank) or {}

    def first_rank(self) -> Rank | None:
        """Finds the first rank that has items; None where there is none."""
        heap = self._heap
        while heap:
            if self._lines[heap[0]]:
                return heap[0]
            del self._lines[heapq.heappop(heap)]
        return None

    def first(self) -> _Item | None:
        """Finds the first item; None where there is none."""
        rank = self.first_rank()
        return None if rank is None else next(iter(self._lines[rank].values()))

    def _drop_empty_lines(self) -> None:
        self._lines = {rank: line for rank, line in self._lines.items() if line}
        self._heap = sorted(self._lines)
        self._max_lines = _SLACK + 2 * len(self._heap)


class Earliest:
    """Earliest of the times that were given for items.

    Args:
        present: Numbers of the items that count; times of others are forgotten.
    """

    def __init__(self, present: Collection[int]) -> None:
        self._present = present
        self._heap: list[tuple[float, int]] = []

    def add(self, time: float, number: int) -> None:
        """Adds a time for an item."""
        heapq.heappush(self._heap, (time, number))
        if len(self._heap) > 2 * len(self._present) + _SLACK:
            self._heap = sorted(entry for entry in self._heap if entry[1] in self._present)

    def first(self) -> float:
        """Finds the earliest time of the items that count; infinity where there is none."""
        while self._heap and self._heap[0][1] not in self._present:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else math.inf

"""Parts of a request queue: an order by rank, and the earliest of many times.

Both take logarithmic time for a change. Entries that no longer count are dropped when they come to the front, or once
they are the majority.
"""

from __future__ import annotations

import heapq
import math
from collections import OrderedDict
from collections.abc import Collection, Iterator
from typing import Final, Generic, TypeVar

_Item = TypeVar("_Item")

Rank = tuple[int, bool]
"""Priority level, of which the lowest number goes first; within it late items go last."""

_SLACK: Final = 8
"""Dropped entries that are not worth a clean-up."""


class PriorityQueue(Generic[_Item]):
    """Items in the order of their ranks; those of one rank in the order in which they came."""

    __slots__ = ("_count", "_empty", "_heap", "_ranks")

    def __init__(self) -> None:
        self._ranks: dict[Rank, OrderedDict[int, _Item]] = {}
        self._heap: list[Rank] = []
        self._count = 0
        self._empty = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[_Item]:
        for rank in sorted(self._ranks):
            yield from self._ranks[rank].values()

    def append(self, rank: Rank, number: int, item: _Item) -> None:
        """Puts an item behind those of its rank."""
        items = self._ranks.get(rank)
        if items is None:
            items = self._ranks[rank] = OrderedDict()
            heapq.heappush(self._heap, rank)
        elif not items:
            self._empty -= 1
        items[number] = item
        self._count += 1

    def remove(self, rank: Rank, number: int) -> None:
        """Takes an item out; it has to be there."""
        items = self._ranks[rank]
        del items[number]
        self._count -= 1
        if not items:
            self._empty += 1
            if self._empty > _SLACK + len(self._heap) // 2:
                self._ranks = {rank: items for rank, items in self._ranks.items() if items}
                self._heap, self._empty = sorted(self._ranks), 0

    def first(self) -> _Item:
        """Finds the first item; there must be one."""
        while not (items := self._ranks[self._heap[0]]):
            del self._ranks[heapq.heappop(self._heap)]
            self._empty -= 1
        return next(iter(items.values()))

    def count(self, rank: Rank) -> int:
        """Counts the items of a rank."""
        return len(self._ranks.get(rank, ()))


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

"""Counters of requests over all front ends, those that have died included: nothing that was seen goes backwards."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeAlias

from mnserve.access.refused_calls import REASONS, RefusedCalls
from mnserve.models.statistics import CELLS, LAST_MS
from mnserve.shared_catalogue.shared_counters import SLOTS, add_up, refused_of, slot_of

Key: TypeAlias = tuple[str, int]
"""Name and version of a model."""


class RequestCounters:
    """Gives the served versions slots in the pages of the front ends, and adds the pages up.

    A version that was unloaded and is loaded again begins at zero, though its slot goes on.

    Args:
        slots: Slots of a page.
    """

    def __init__(self, slots: int = SLOTS) -> None:
        self._free = list(reversed(range(slots)))
        self._slots: dict[Key, int] = {}
        self._left: OrderedDict[int, None] = OrderedDict()
        """Slots of versions that are gone; those that are gone for longest come first."""
        self._before: dict[int, list[int]] = {}
        """Slot -> what it had counted when it was given out."""
        self._pages: dict[int, memoryview[int]] = {}
        self._base: dict[int, list[int]] = {}
        """Slot -> what front ends have counted that are gone."""
        self._refused = [0] * len(REASONS)

    def slot(self, key: Key) -> int:
        """Finds the slot of a version, or gives it one.

        Raises:
            IndexError: More versions are served than there are slots.
        """
        if key not in self._slots:
            if not self._free and not self._left:
                raise IndexError("more model versions are served than a page of counters has slots")
            slot = self._free.pop() if self._free else self._left.popitem(last=False)[0]
            self._before[slot] = self._sum(slot)
            self._slots[key] = slot
        return self._slots[key]

    def forget(self, key: Key) -> None:
        """Takes a version out that is served no more."""
        slot = self._slots.pop(key, None)
        if slot is not None:
            self._left[slot] = None

    def add_page(self, place: int, page: memoryview[int]) -> None:
        """Counts the page of a front end in.

        Args:
            place: Place of the front end.
            page: Its page.
        """
        self._pages[place] = page

    def fold(self, place: int) -> None:
        """Keeps the counts of a front end that has ended; its page is not read any more."""
        page = self._pages.pop(place, None)
        if page is None:
            return
        for slot in [*self._slots.values(), *self._left]:
            self._base[slot] = add_up((self._base.get(slot, [0] * CELLS), slot_of(page, slot)))
        self._refused = [one + other for one, other in zip(self._refused, refused_of(page), strict=True)]

    def counts(self, key: Key) -> list[int]:
        """Adds the counters of one version up.

        Returns:
            Cells as ``mnserve.models.statistics.ModelCounters`` has them.
        """
        slot = self._slots.get(key)
        if slot is None:
            return [0] * CELLS
        total, before = self._sum(slot), self._before[slot]
        last = 0 if total[LAST_MS] == before[LAST_MS] else total[LAST_MS]
        counts = [one - other for one, other in zip(total, before, strict=True)]
        counts[LAST_MS] = last
        return counts

    def refused(self) -> dict[str, int]:
        """Adds the refused calls up: reason -> calls."""
        rows = [self._refused, *(list(refused_of(page)) for page in tuple(self._pages.values()))]
        return {reason: sum(column) for reason, *column in zip(REASONS, *rows, strict=True)}

    def _sum(self, slot: int) -> list[int]:
        base = self._base.get(slot)
        rows = [slot_of(page, slot) for page in tuple(self._pages.values())]
        return add_up(rows if base is None else [base, *rows])


class AllRefused(RefusedCalls):
    """Refused calls of all front ends, to be read.

    Args:
        counters: Has them.
    """

    def __init__(self, counters: RequestCounters) -> None:
        super().__init__()
        self._counters = counters

    @property
    def counts(self) -> dict[str, int]:
        """Reason -> refused calls."""
        return self._counters.refused()

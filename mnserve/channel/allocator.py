"""Places in a range of memory: blocks with sizes that are powers of two, which join with their neighbours when free."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

SMALLEST: Final = 256
"""Size of the smallest block in bytes. Blocks lie at multiples of their size."""
SPARE: Final = 64
"""Free blocks of each size that are kept as they are, to be taken again without being joined and split."""
LARGE: Final = 2**16
"""Size from which a free block is worth giving back."""


class NoRoomError(Exception):
    """No free block is large enough.

    Attributes:
        nbytes: Bytes that were asked for.
        capacity: Bytes of the whole range.
    """

    def __init__(self, nbytes: int, capacity: int) -> None:
        super().__init__(f"no room for {nbytes} bytes among {capacity}; try again once others are free")
        self.nbytes = nbytes
        self.capacity = capacity


class Allocator:
    """Hands out places in a range of bytes, in constant time. It keeps offsets and touches no memory.

    Args:
        capacity: Bytes of the range.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.used = 0
        """Bytes of the blocks that are taken."""
        orders = max(1, (capacity // SMALLEST).bit_length())
        self._taken: dict[int, int] = {}
        self._spare: list[list[int]] = [[] for _ in range(orders)]
        self._free: list[set[int]] = [set() for _ in range(orders)]
        offset = 0
        for order in reversed(range(orders)):
            if capacity - offset >= SMALLEST << order:
                self._free[order].add(offset)
                offset += SMALLEST << order

    def allocate(self, nbytes: int) -> int:
        """Takes a block.

        Args:
            nbytes: Bytes that it has at least.

        Returns:
            Its offset in bytes.

        Raises:
            NoRoomError: No free block is large enough.
        """
        order = (nbytes - 1 >> 8).bit_length() if nbytes > SMALLEST else 0
        try:
            offset = self._spare[order].pop()
        except IndexError:
            offset = self._split(order, nbytes)
        self._taken[offset] = order
        self.used += SMALLEST << order
        return offset

    def free(self, offset: int) -> None:
        """Frees a block.

        Args:
            offset: What :meth:`allocate` returned.

        Raises:
            ValueError: No block is taken there.
        """
        order = self._taken.pop(offset, None)
        if order is None:
            raise ValueError(f"no block is taken at {offset}")
        self.used -= SMALLEST << order
        spare = self._spare[order]
        if len(spare) < SPARE:
            spare.append(offset)
        else:
            self._join(offset, order)

    def give_back(self, give: Callable[[int, int], None]) -> None:
        """Joins all free blocks and gives the large ones back.

        Args:
            give: Takes the offset and the bytes of each, such as ``SharedMemory.give_back``.
        """
        self._join_spare()
        for order in range((LARGE // SMALLEST).bit_length() - 1, len(self._free)):
            for offset in self._free[order]:
                give(offset, SMALLEST << order)

    def _split(self, order: int, nbytes: int) -> int:
        """Takes a block out of the smallest free one that is large enough."""
        found = self._smallest(order)
        if found is None:
            self._join_spare()
            found = self._smallest(order)
            if found is None:
                raise NoRoomError(nbytes, self.capacity)
        offset = self._free[found].pop()
        while found > order:
            found -= 1
            self._free[found].add(offset + (SMALLEST << found))
        return offset

    def _smallest(self, order: int) -> int | None:
        return next((larger for larger in range(order, len(self._free)) if self._free[larger]), None)

    def _join_spare(self) -> None:
        for order, spare in enumerate(self._spare):
            while spare:
                self._join(spare.pop(), order)

    def _join(self, offset: int, order: int) -> None:
        """Adds a free block, joined with its other half for as long as that is free."""
        while (other := offset ^ (SMALLEST << order)) in self._free[order]:
            self._free[order].remove(other)
            offset &= other
            order += 1
        self._free[order].add(offset)

"""What is left of the number of requests to trace, in one process or over several."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final, Protocol

from mnserve.channel.locked import LockedCells

COUNT_CELLS: Final = 4096
"""Cells of the counts that processes share; models whose names fall on the same cell share a count."""
_HASH_BYTES: Final = 8


class TraceCounts(Protocol):
    """Counts down for each scope: a model, or "" for all of those without settings of their own."""

    def take(self, scope: str, count: int) -> bool:
        """Takes one of the requests that may be traced.

        Args:
            scope: The scope.
            count: Requests that may be traced since the last reset.

        Returns:
            False if none is left.
        """

    def reset(self, scope: str) -> None:
        """Begins to count anew."""


class OwnTraceCounts:
    """Counts of one process."""

    def __init__(self) -> None:
        self._taken: dict[str, int] = {}

    def take(self, scope: str, count: int) -> bool:
        """See :meth:`TraceCounts.take`."""
        taken = self._taken.get(scope, 0)
        self._taken[scope] = taken + 1
        return taken < count

    def reset(self, scope: str) -> None:
        """See :meth:`TraceCounts.reset`."""
        self._taken.pop(scope, None)


class SharedTraceCounts:
    """Counts that processes share.

    Args:
        cells: COUNT_CELLS cells.
    """

    def __init__(self, cells: LockedCells) -> None:
        self._cells = cells

    def take(self, scope: str, count: int) -> bool:
        """See :meth:`TraceCounts.take`."""
        return self._cells.add(_index(scope), 1) <= count

    def reset(self, scope: str) -> None:
        """See :meth:`TraceCounts.reset`."""
        index = _index(scope)
        with self._cells.locked(index) as cells:
            cells[index] = 0


def _index(scope: str) -> int:
    digest = blake2b(scope.encode(errors="surrogatepass"), digest_size=_HASH_BYTES).digest()
    return int.from_bytes(digest, "little") % COUNT_CELLS

"""Rate limits of callers over several processes: one table in shared memory, whose rows are locked by turns."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from mnserve.access.rate_limits import RateLimits
from mnserve.channel.locked import LockedCells

_WAYS: Final = 8
"""Rows in which a caller may be."""
_SETS: Final = 2048
_CELLS: Final = 2
"""Cells of a row: hash of the caller, and the time at which its bucket is full again, in nanoseconds."""
TABLE_CELLS: Final = _SETS * _WAYS * _CELLS
_HASH_BYTES: Final = 8
_SECOND: Final = 1_000_000_000


@dataclass(frozen=True)
class RateTable:
    """Table of callers that processes share.

    Attributes:
        cells: TABLE_CELLS cells.
        key: Secret of this server, so that nobody can look for callers with the same hash.
    """

    cells: LockedCells
    key: bytes


class SharedRateLimits(RateLimits):
    """Token buckets of all callers, as :class:`RateLimits`, over all processes that have the table.

    A caller whose row is needed for others starts with a full bucket: that whose bucket is full first goes first.

    Args:
        rate: Requests a second that a caller may send for long.
        burst: Requests that a caller may send at once after a pause, 1 or more.
        table: The table.
        clock: Monotonic clock in seconds, which the processes have in common.
    """

    def __init__(self, rate: float, burst: int, table: RateTable, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(rate, burst, clock)
        self._table = table
        self._period = round(_SECOND / rate)

    def take(self, caller: bytes | str) -> None:
        """See :meth:`RateLimits.take`."""
        name = b"s" + caller.encode(errors="surrogatepass") if isinstance(caller, str) else b"b" + caller
        digest = blake2b(name, digest_size=_HASH_BYTES, key=self._table.key).digest()
        number = int.from_bytes(digest, "little", signed=True)
        first = number % _SETS * _WAYS * _CELLS
        now = round(self._clock() * _SECOND)
        with self._table.cells.locked(first, _WAYS * _CELLS) as cells:
            rows = range(first, first + _WAYS * _CELLS, _CELLS)
            row = next((row for row in rows if cells[row] == number), -1)
            if row < 0:
                row = min(rows, key=lambda row: cells[row + 1])
                cells[row], cells[row + 1] = number, 0
            full_at = max(cells[row + 1], now)
            wait = full_at - now - (self._burst - 1) * self._period
            if wait <= 0:
                cells[row + 1] = full_at + self._period
                return
        raise self._error(wait / _SECOND)

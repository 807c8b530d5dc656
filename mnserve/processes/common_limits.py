"""What all front ends count together: calls in progress, callers with their rates, and traced requests."""

from __future__ import annotations

import os
from typing import Final

from mnserve.access.shared_rate_limits import TABLE_CELLS
from mnserve.channel.locked import LockedCells
from mnserve.channel.pages import CounterPage
from mnserve.observability.trace_counts import COUNT_CELLS
from mnserve.settings import MAX_PROCESSES

_KEY_BYTES: Final = 16


class CommonLimits:
    """Memory of the limits of one server."""

    def __init__(self) -> None:
        self.calls = CounterPage.create(MAX_PROCESSES)
        """Calls of inference in progress in each front end, which writes its own cell."""
        self.key = os.urandom(_KEY_BYTES).hex()
        """Key of the hashes of callers, in hexadecimal digits."""
        self._tables = tuple(LockedCells.create(count) for count in (TABLE_CELLS, TABLE_CELLS, COUNT_CELLS))

    @property
    def fds(self) -> tuple[int, ...]:
        """Open files: calls in progress, callers without a good token, callers of inference, and traced requests."""
        return (self.calls.fd, *(table.fd for table in self._tables))

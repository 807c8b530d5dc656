"""Bounds of the calls in progress: of inference, of the other calls, and of those that stay open.

Inference and the other calls have places of their own, so that neither keeps the other waiting. No limit here needs to
know who calls, since probes have no token.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from mnserve.access.refused_calls import RefusedCalls
from mnserve.access.refusing import refusing
from mnserve.errors import RequestError, StoppingError, TooManyCallsError

MAX_LOADS: Final = 64
"""Most calls at a time that load a model: each may bring files, and loads of one model wait for each other."""
MAX_CALLS: Final = 8192
"""Most calls in progress that bring no tensors, such as probes."""
MAX_CALLS_OF_CONNECTION: Final = 1024
MAX_WATCHES: Final = 1024
"""Most health watches."""
MAX_WATCHES_OF_CONNECTION: Final = 64
MAX_REFLECTIONS: Final = 16
"""Most streams of reflection. Each may be receiving a message while it stays open."""
MAX_REFLECTIONS_OF_CONNECTION: Final = 4


class LargeCalls:
    """Calls in progress of methods whose messages may be large.

    Args:
        most: Most of them at a time; 0 is no limit.
        what: Name of the calls, in the plural.
        remedy: What to do about too many of them.
        refused: Counts the others.
    """

    def __init__(self, most: int, what: str, remedy: str, refused: RefusedCalls) -> None:
        self.most = most or sys.maxsize
        """Most calls at a time."""
        self.tasks: set[asyncio.Task[Any]] = set()
        """Tasks, each with one call."""
        self.refusing = refusing(lambda _context: self.refusal())
        """Handler of a call for which there is no place."""
        self._what, self._remedy, self._refused = what, remedy, refused
        self._stopping = False

    def has_room(self) -> bool:
        """True if one more call may begin."""
        return len(self.tasks) < self.most

    def begin(self, task: asyncio.Task[Any]) -> None:
        """Counts a call until its task has ended."""
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def stop(self) -> None:
        """Takes nothing new from now on."""
        self._stopping, self.most = True, 0

    def refusal(self) -> RequestError:
        """Counts a call for which there is no place, and returns its error."""
        if self._stopping:
            self._refused.count("STOPPING")
            return StoppingError("the server is stopping and takes no new requests; try another server")
        self._refused.count("PLACES")
        return TooManyCallsError(
            f"the server has {self.most} {self._what} in progress, the most that it takes; {self._remedy}"
        )


class SharedCalls(LargeCalls):
    """Calls in progress in several processes that have one bound.

    Each counts its own in a cell that the others read. So calls that begin in several processes at the same moment
    may be more than the bound, by one for each other process.

    Args:
        most: Most of them at a time; 0 is no limit.
        what: Name of the calls, in the plural.
        remedy: What to do about too many of them.
        refused: Counts the others.
        counts: Calls in progress in each process.
        own: Index of the cell of this one.
    """

    def __init__(
        self, most: int, what: str, remedy: str, refused: RefusedCalls, counts: memoryview[int], own: int
    ) -> None:
        super().__init__(most, what, remedy, refused)
        self._counts, self._own = counts, own

    def has_room(self) -> bool:
        """True if one more call may begin."""
        return sum(self._counts) < self.most

    def begin(self, task: asyncio.Task[Any]) -> None:
        """Counts a call until its task has ended."""
        self.tasks.add(task)
        self._counts[self._own] = len(self.tasks)
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        self._counts[self._own] = len(self.tasks)


class Places:
    """Places for calls in progress, of all callers and of each connection.

    Args:
        total: Most calls at a time.
        per_connection: Most calls of one connection at a time.
        what: Name of the calls, in the plural.
    """

    def __init__(self, total: int, per_connection: int, what: str) -> None:
        self._total, self._per_connection, self._what = total, per_connection, what
        self._taken: Counter[str] = Counter()
        self.taken = 0
        """Calls in progress."""

    @contextmanager
    def place(self, connection: str) -> Iterator[None]:
        """Holds a place.

        Args:
            connection: Peer of the call, with its port.

        Raises:
            TooManyCallsError: There is no place.
        """
        if self._taken[connection] >= self._per_connection:
            raise self._error(f"this connection has {self._per_connection}")
        if self.taken >= self._total:
            raise self._error(f"the server has {self._total}")
        self._taken[connection] += 1
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1
            self._taken[connection] -= 1
            if not self._taken[connection]:
                del self._taken[connection]

    def _error(self, who: str) -> TooManyCallsError:
        return TooManyCallsError(f"{who} {self._what} in progress, the most that it may have; end one, or try again")


class CallLimits:
    """Bounds of all calls of one server.

    Args:
        max_inference: Most calls of inference in progress; 0 is no limit.
        refused: Counts refused calls; None makes a counter.
        shared: Calls of inference in progress in each process of the server, and the index of this one; None where
            this is the only one.
    """

    def __init__(
        self,
        max_inference: int = 0,
        refused: RefusedCalls | None = None,
        shared: tuple[memoryview[int], int] | None = None,
    ) -> None:
        self.refused = RefusedCalls() if refused is None else refused
        what = "calls of inference"
        remedy = "try again later, or start the server with a larger --max-concurrent-requests"
        self.inference = (
            LargeCalls(max_inference, what, remedy, self.refused)
            if shared is None
            else SharedCalls(max_inference, what, remedy, self.refused, *shared)
        )
        self.loads = LargeCalls(MAX_LOADS, "calls that load a model", "try again once they have ended", self.refused)
        self.calls = Places(MAX_CALLS, MAX_CALLS_OF_CONNECTION, "calls without tensors")
        self.watches = Places(MAX_WATCHES, MAX_WATCHES_OF_CONNECTION, "health watches")
        self.reflections = Places(MAX_REFLECTIONS, MAX_REFLECTIONS_OF_CONNECTION, "streams of reflection")

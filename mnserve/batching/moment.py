"""The moment that an idle engine gives to requests on their way, and when it is over.

Callers who are answered together come back together, one after the other: a front end takes them in one by one. An
engine that began with the first of them would run it alone, and each run costs the front end a turn. So an engine that
has joined requests lately waits, until what waits would keep it busy for a third of the time that the others take to
come.

A caller who is alone never waits, since nobody else is on the way. Nor does anybody where a run takes longer than
taking its requests in: batches form while the engine is busy.
"""

from __future__ import annotations

import math
from typing import Final

from mnserve.batching.request_queue import RequestQueue
from mnserve.execution.batch import Batch

MAX_NS: Final = 4_000_000
"""Longest moment."""
DRY_GAPS: Final = 8
"""Gaps between arrivals after which nobody else is on the way."""
_RUN_SHARE: Final = 3
"""Times that a run counts. Where all callers share one run, nobody is taken in meanwhile; so runs that are no trifle
begin while others are still on the way."""
_FIRST_GAP_NS: Final = 300_000
"""Gap before any was measured."""
_MAX_GAP_NS: Final = 1_000_000
"""Longest gap between requests that come one after the other. What takes longer is a caller's pause."""
_LATE_NS: Final = 1_000_000
"""Time by which an idle event loop may be late: epoll counts in milliseconds."""
_JOINED_RUNS: Final = 8
"""Runs of one request each after which requests are not joined any more."""


class WaitingMoment:
    """Decides how long an idle engine waits for callers who were answered lately. It measures all that it needs.

    Args:
        queue: The waiting requests.
    """

    def __init__(self, queue: RequestQueue) -> None:
        self.enough_at = 0
        """Number of arrivals, counted from the first ever, with which the moment is over that was granted last."""
        self._queue = queue
        self._ns = queue.clock.ns
        self._gap_ns: float = _FIRST_GAP_NS
        self._row_ns = math.inf
        self._single_runs = _JOINED_RUNS
        self._back_at = 0
        """Number of arrivals with which all who were answered lately are back."""
        self._lost_ns = 0
        """Time after which those who are not back are not expected any more."""
        self._answered_ns = 0
        self._answered_at = 0
        """Time of the last answers, and the number of arrivals then."""
        self._due_ns: float = math.inf
        """Time at which the moment that was granted last ends by itself."""
        self._busy_ns = 0
        """Time at which the event loop was seen to lag behind."""

    def on_answered(self, batch: Batch, run_ns: int) -> None:
        """Notes that a run has ended well: its callers may come back.

        Args:
            batch: The batch, with at least one request.
            run_ns: Duration of the run.
        """
        queue, now, count = self._queue, self._ns(), len(batch.requests)
        self._single_runs = 0 if count > 1 else self._single_runs + 1
        row_ns = run_ns / max(1, batch.rows)
        if row_ns < self._row_ns:
            self._row_ns = row_ns
        else:  # a run that took longer than others may have waited for a core
            self._row_ns += (min(row_ns, 4 * self._row_ns) - self._row_ns) / 8
        came = queue.arrivals - self._answered_at
        if came > 1:
            gap_ns = (queue.last_admitted_ns - self._answered_ns) / came
            if 0 < gap_ns < _MAX_GAP_NS:
                self._gap_ns += (gap_ns - self._gap_ns) / 4
        if now > self._lost_ns:
            self._back_at = queue.arrivals
        self._back_at = max(self._back_at, queue.arrivals) + count
        self._answered_ns, self._answered_at = now, queue.arrivals
        away = self._back_at - queue.arrivals
        self._lost_ns = now + MAX_NS + int(2 * away * self._gap_ns)
        self._due_ns = math.inf

    def remaining(self) -> float:
        """Computes the seconds that an idle engine still waits for more requests; 0 where it does not.

        There is a request that waits.
        """
        queue, arrivals = self._queue, self._queue.arrivals
        away = self._back_at - arrivals
        if away <= 0 or self._single_runs >= _JOINED_RUNS:
            return 0.0
        # Every request that comes makes the engine busier by its run, and those on their way fewer by one.
        waiting, run_ns = len(queue), _RUN_SHARE * self._row_ns * queue.rows
        missing = math.ceil((away * self._gap_ns - run_ns) / (self._gap_ns + run_ns / waiting))
        if missing <= 0:
            return 0.0
        self.enough_at = arrivals + missing
        now = self._ns()
        if now > self._due_ns + _LATE_NS + self._gap_ns:
            self._busy_ns = now  # the loop had no time to take calls in, so they may come yet
        dry_ns = max(queue.last_admitted_ns, self._busy_ns) + DRY_GAPS * self._gap_ns
        late_ns = queue.oldest().admitted_ns + MAX_NS
        self._due_ns = min(dry_ns, late_ns, self._lost_ns)
        if now < self._due_ns:
            return (self._due_ns - now) / 1e9
        # Nobody came for a while, or fewer than expected: so fewer are on their way than it seemed.
        self._back_at = arrivals + (away * 3 // 4 if now < min(dry_ns, self._lost_ns) else 0)
        self._due_ns = math.inf
        return 0.0

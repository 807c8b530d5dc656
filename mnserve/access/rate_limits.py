"""How many requests a caller may send: a bucket of permits for each caller, refilled at a steady rate."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from mnserve.errors import RateLimitedError

MAX_CALLERS: Final = 10_000
"""Callers that are remembered. Beyond that the one that was heard of least lately is forgotten, and may begin anew."""


class RateLimits:
    """Permits of every caller.

    Args:
        rate: Requests a second that a caller may send for long.
        burst: Requests that it may send at once after it was silent, 1 or more.
        clock: Seconds, never going back.
    """

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # caller → permits, and when

    def take(self, caller: str) -> None:
        """Takes one permit.

        Raises:
            RateLimitedError: There is none; tells when there will be.
        """
        now = self._clock()
        permits, then = self._buckets.pop(caller, (float(self._burst), now))
        permits = min(float(self._burst), permits + (now - then) * self._rate)
        granted = permits >= 1
        self._buckets[caller] = (permits - granted, now)
        if len(self._buckets) > MAX_CALLERS:
            self._buckets.popitem(last=False)
        if not granted:
            wait = (1 - permits) / self._rate
            raise RateLimitedError(
                f"more than {self._rate:g} requests a second came from this caller (and {self._burst} at once); the "
                f"next is let in after {wait:.3f} s",
                retry_ms=max(1, round(wait * 1000)),
            )

"""Rate limits of callers: a bucket of permits for each caller, refilled at a steady rate."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from mnserve.errors import RateLimitedError

MAX_CALLERS: Final = 10_000
"""Callers that are remembered. Beyond that the least recent caller is forgotten, and starts with a full bucket."""


class RateLimits:
    """Token buckets of all callers.

    Args:
        rate: Requests a second that a caller may send for long.
        burst: Requests that a caller may send at once after a pause, 1 or more.
        clock: Monotonic clock in seconds.
    """

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._buckets: OrderedDict[bytes | str, tuple[float, float]] = (
            OrderedDict()
        )  # caller → permits, time of the count

    def take(self, caller: bytes | str) -> None:
        """Takes one permit of a caller.

        Raises:
            RateLimitedError: The bucket is empty; has the time until the next permit.
        """
        now = self._clock()
        permits, counted_at = self._buckets.pop(caller, (float(self._burst), now))
        permits = min(float(self._burst), permits + (now - counted_at) * self._rate)
        granted = permits >= 1
        self._buckets[caller] = (permits - granted, now)
        if len(self._buckets) > MAX_CALLERS:
            self._buckets.popitem(last=False)
        if not granted:
            raise self._error((1 - permits) / self._rate)

    def _error(self, wait: float) -> RateLimitedError:
        return RateLimitedError(
            f"more than {self._rate:g} requests a second came from this caller (and {self._burst} at once); the "
            f"next is let in after {wait:.3f} s",
            retry_ms=max(1, round(wait * 1000)),
        )

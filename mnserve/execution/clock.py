"""Monotonic clock of a batcher and its instances, passed in so that tests can turn it by hand."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Clock:
    """Monotonic time in two units.

    Attributes:
        seconds: Time in seconds, the same as the event loop's; deadlines and delays are given on it.
        ns: Time in nanoseconds, never 0; durations for statistics are measured with it.
    """

    seconds: Callable[[], float] = time.monotonic
    ns: Callable[[], int] = time.monotonic_ns

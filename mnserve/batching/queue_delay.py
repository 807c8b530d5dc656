"""Waiting for company: how long an idle instance leaves requests waiting so that more may share their run."""

from __future__ import annotations

import asyncio
import time

from mnserve.batching.options import BatcherOptions
from mnserve.batching.request_queue import RequestQueue

__all__ = ["remaining_delay"]

_DEADLINE_MARGIN = 0.02
"""Seconds, beside the time of the last run, before a deadline at which nobody waits for company any longer."""


def remaining_delay(waiting: RequestQueue, options: BatcherOptions, run_seconds: float) -> tuple[float, bool]:
    """Seconds that an idle instance still waits for more requests, and whether somebody has waited long enough.

    Nobody waits while some bucket holds a whole batch or a preferred one, nor so long that a deadline could not be
    kept, nor past half the time that some request may wait before it is refused.

    Args:
        waiting: Who waits, at least one.
        options: Limits of the batcher.
        run_seconds: How long a run takes.
    """
    if options.max_delay == 0 or options.max_batch_size == 0:
        return 0.0, False
    now = asyncio.get_running_loop().time()
    left = min(
        options.max_delay - (time.monotonic_ns() - waiting.oldest().admitted_ns) / 1e9,
        waiting.first_deadline - now - run_seconds - _DEADLINE_MARGIN,
        waiting.delay_until - now,
    )
    if left <= 0:
        return 0.0, True
    return (0.0 if waiting.has_full_batch else left), False

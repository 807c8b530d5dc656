"""Rate limits over several processes: the buckets are those of one."""

from __future__ import annotations

import os
import random

import pytest

from mnserve.access.call_limits import SharedCalls
from mnserve.access.rate_limits import RateLimits
from mnserve.access.refused_calls import RefusedCalls
from mnserve.access.shared_rate_limits import TABLE_CELLS, RateTable, SharedRateLimits
from mnserve.channel.locked import LockedCells
from mnserve.errors import RateLimitedError

KEY = b"k" * 16


def granted(limits: RateLimits, caller: str | bytes) -> bool:
    try:
        limits.take(caller)
    except RateLimitedError:
        return False
    return True


def test_callers_have_the_permits_of_one_process_over_several() -> None:
    now = 1000.0
    cells = LockedCells.create(TABLE_CELLS)
    others = LockedCells.from_fd(os.dup(cells.fd))
    shared = [SharedRateLimits(4, 3, RateTable(memory, KEY), lambda: now) for memory in (cells, others)]
    alone = RateLimits(4, 3, lambda: now)
    chance = random.Random(0)
    for _ in range(500):
        caller = chance.choice(["a", "b", b"a"])
        assert granted(chance.choice(shared), caller) == granted(alone, caller)
        now += chance.choice([0.0, 0.125, 0.5, 2.0])
    for _ in range(3):
        assert granted(shared[0], "c")
    with pytest.raises(RateLimitedError, match=r"more than 4 requests a second .* after 0\.250 s") as caught:
        shared[1].take("c")
    assert caught.value.retry_ms == 250


def test_more_callers_than_rows_forget_those_whose_buckets_are_full_first() -> None:
    now = 1.0
    limits = SharedRateLimits(1, 1, RateTable(LockedCells.create(TABLE_CELLS), KEY), lambda: now)
    assert all(granted(limits, str(number)) for number in range(20_000))
    assert not granted(limits, "19999")
    now = 2.0
    assert granted(limits, "19999")


def test_calls_in_progress_are_bounded_over_all_processes() -> None:
    counts = memoryview(bytearray(16)).cast("q")
    one, other = (SharedCalls(3, "calls", "wait", RefusedCalls(), counts, own) for own in range(2))
    counts[0] = 2
    assert other.has_room()
    counts[1] = 1
    assert not one.has_room()
    assert not other.has_room()
    other.stop()
    counts[0] = counts[1] = 0
    assert one.has_room()
    assert not other.has_room()

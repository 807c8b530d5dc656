"""Buckets of permits."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnserve.access.rate_limits import MAX_CALLERS, RateLimits
from mnserve.errors import RateLimitedError


class Clock:
    """Stands until it is moved."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def granted(limits: RateLimits, caller: str, count: int) -> int:
    def one() -> bool:
        try:
            limits.take(caller)
        except RateLimitedError:
            return False
        return True

    return sum(one() for _ in range(count))


def test_a_caller_gets_a_burst_and_then_the_rate() -> None:
    clock = Clock()
    limits = RateLimits(2, 5, clock)
    assert granted(limits, "a", 9) == 5
    clock.now += 1.1
    assert granted(limits, "a", 9) == 2
    clock.now += 3600
    assert granted(limits, "a", 9) == 5


def test_callers_have_limits_of_their_own() -> None:
    limits = RateLimits(1, 2, Clock())
    assert [granted(limits, caller, 3) for caller in "ab"] == [2, 2]


def test_a_refusal_has_the_time_of_the_next_permit() -> None:
    clock = Clock()
    limits = RateLimits(4, 1, clock)
    limits.take("a")
    clock.now += 0.1
    with pytest.raises(RateLimitedError, match=r"more than 4 requests a second .* after 0\.150 s") as caught:
        limits.take("a")
    assert caught.value.retry_ms == 150
    clock.now += 0.1501
    limits.take("a")


def test_refused_requests_cost_nothing() -> None:
    clock = Clock()
    limits = RateLimits(1, 1, clock)
    assert granted(limits, "a", 100) == 1
    clock.now += 1.001
    assert granted(limits, "a", 1) == 1


def test_callers_beyond_the_limit_displace_the_least_recent() -> None:
    limits = RateLimits(1, 1, Clock())
    limits.take("first")
    for number in range(MAX_CALLERS - 1):
        limits.take(str(number))
    assert granted(limits, "first", 1) == 0
    limits.take("one more")
    assert granted(limits, "0", 1) == 1, "forgotten, as it was heard of least lately"
    assert granted(limits, "first", 1) == 0


@settings(deadline=None)
@given(steps=st.lists(st.floats(0, 3), min_size=1, max_size=60), rate=st.floats(0.1, 20), burst=st.integers(1, 10))
def test_no_caller_gets_more_than_the_burst_and_the_refill(steps: list[float], rate: float, burst: int) -> None:
    clock = Clock()
    limits = RateLimits(rate, burst, clock)
    count = 0
    for step in steps:
        clock.now += step
        count += granted(limits, "a", 3)
    assert count <= burst + rate * sum(steps) + 1e-6

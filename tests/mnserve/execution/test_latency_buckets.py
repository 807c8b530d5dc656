"""Buckets of latencies: in their order, without a gap, and narrow enough."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mnserve.execution.latency_buckets import BOUNDS_NS, BUCKETS, bucket_of


@given(st.integers(min_value=0, max_value=2**62))
def test_a_latency_is_within_the_bounds_of_its_bucket(ns: int) -> None:
    bucket = bucket_of(ns)
    assert 0 <= bucket < BUCKETS
    assert bucket == 0 or BOUNDS_NS[bucket - 1] <= ns
    assert bucket == BUCKETS - 1 or ns < BOUNDS_NS[bucket]


def test_a_bucket_is_at_most_a_quarter_as_wide_as_its_latencies() -> None:
    assert len(BOUNDS_NS) == BUCKETS - 1
    assert all(1 < above / below <= 1.25 for below, above in pairwise(BOUNDS_NS))
    assert BOUNDS_NS[0] == 16_384
    assert BOUNDS_NS[-1] == 2**37

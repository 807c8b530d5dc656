"""Buckets of a histogram of latencies: four for each doubling, from 16 microseconds to 137 seconds.

A latency is off by at most a quarter of itself then, in a bounded number of counters that processes can add up.
"""

from __future__ import annotations

from typing import Final

_STEPS: Final = 4
"""Buckets for each doubling."""
_SHIFT: Final = 2
"""Binary logarithm of the steps."""
_FIRST_BITS: Final = 14
"""Latencies with fewer bits, in nanoseconds, share the first bucket: below 16,384 ns."""
_LAST_BITS: Final = 37
"""Latencies with more bits share the last bucket: from 137 s."""
BUCKETS: Final = _STEPS * (_LAST_BITS - _FIRST_BITS) + 2
"""Number of buckets."""
BOUNDS_NS: Final = tuple(
    [1 << _FIRST_BITS]
    + [
        (1 << (bits - 1)) + step * (1 << (bits - 1 - _SHIFT))
        for bits in range(_FIRST_BITS + 1, _LAST_BITS + 1)
        for step in range(1, _STEPS + 1)
    ]
)
"""Upper bound of each bucket but the last, in nanoseconds; a latency is below its bound."""


def bucket_of(ns: int) -> int:
    """Finds the bucket of a latency in nanoseconds."""
    bits = ns.bit_length()
    if bits <= _FIRST_BITS:
        return 0
    if bits > _LAST_BITS:
        return BUCKETS - 1
    return ((bits - _FIRST_BITS - 1) << _SHIFT) + ((ns >> (bits - 1 - _SHIFT)) & (_STEPS - 1)) + 1

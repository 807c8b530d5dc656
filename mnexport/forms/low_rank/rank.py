"""The smallest rank that keeps within a tolerance."""

from collections.abc import Callable


def smallest_rank(error: Callable[[int], float], largest: int, tolerance: float) -> int | None:
    """The smallest rank whose error is within the tolerance, found by halving; None where even the largest fails.

    Errors fall with the rank but for noise, so that no smaller rank is looked for below one that failed.

    Args:
        error: rank → largest error.
        largest: highest rank that may be taken.
        tolerance: that the error must not exceed.
    """
    if largest < 1 or not error(largest) <= tolerance:
        return None
    low, high = 0, largest
    while high - low > 1:
        middle = (low + high) // 2
        if error(middle) <= tolerance:
            high = middle
        else:
            low = middle
    return high

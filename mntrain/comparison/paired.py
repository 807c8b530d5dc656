"""Paired t-test of two rows of scores, and the correction of several such tests."""

import math
import statistics
from collections.abc import Sequence

from scipy.stats import ttest_rel


def paired_p_value(scores: Sequence[float], other_scores: Sequence[float]) -> float | None:
    """Return the p-value of the two-sided test; None for fewer than two pairs, or where all differences are equal."""
    differences = [a - b for a, b in zip(scores, other_scores, strict=True)]
    # Without any spread the statistic of the test is a division by zero.
    if len(differences) < 2 or math.isclose(statistics.stdev(differences), 0.0, abs_tol=1e-12):
        return None
    return float(ttest_rel(scores, other_scores).pvalue)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Correct p-values for their number by Holm's step-down method (1979).

    Where nothing differs, at most 5 % of such families have a corrected value below 0.05. The k-th smallest of m is
    multiplied by m − k + 1; none becomes smaller than one before it, or larger than 1. No assumption is made on how
    the tests depend on each other.

    Args:
        p_values: of every test of the family; None where there is no test, which is left out of the count.
    """
    corrected: list[float | None] = [None] * len(p_values)
    known = sorted((value, place) for place, value in enumerate(p_values) if value is not None)
    largest = 0.0
    for rank, (value, place) in enumerate(known):
        largest = min(1.0, max(largest, (len(known) - rank) * value))
        corrected[place] = largest
    return corrected

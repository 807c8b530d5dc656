"""Whether two rows of scores differ, taken pair by pair."""

import math
import statistics
from collections.abc import Sequence

from scipy.stats import ttest_rel


def paired_p_value(ours: Sequence[float], theirs: Sequence[float]) -> float | None:
    """p-value of the two-sided paired t-test; None for fewer than two pairs, or where all differences are equal."""
    differences = [a - b for a, b in zip(ours, theirs, strict=True)]
    # Without any spread the statistic of the test is a division by zero.
    if len(differences) < 2 or math.isclose(statistics.stdev(differences), 0.0, abs_tol=1e-12):
        return None
    return float(ttest_rel(ours, theirs).pvalue)

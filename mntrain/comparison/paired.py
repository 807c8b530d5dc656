"""Paired t-test of two rows of scores."""

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

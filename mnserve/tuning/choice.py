"""Choice among the finalists: the fastest, or a simpler one with the same results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from mnserve.tuning.candidate import Candidate
from mnserve.tuning.scores import Goal, Trial, score

SAME_THROUGHPUT: Final = 0.03
"""Relative difference of two throughputs, round by round, up to which they count as equal."""
SAME_LATENCY: Final = 0.1
"""Relative difference of two percentiles up to which they count as equal; percentiles vary more than throughputs."""
_MAX_NOISE: Final = 0.1
"""Relative difference of two throughputs beyond which they never tie, however many rounds each has won."""


def choose(trials: Mapping[Candidate, Sequence[Trial]], goal: Goal, current: Candidate) -> Candidate | None:
    """Chooses the candidate with the highest throughput among those that keep the bound.

    Ties go to the lower latency, then to fewer instances, fewer threads, less delay, and the current batch size.

    Args:
        trials: Finalist -> its trials, in the order of the rounds; the same number for each.
        goal: The bound.
        current: The current configuration.

    Returns:
        The candidate; None if no candidate keeps the bound.
    """
    scores = {candidate: score(rounds, goal) for candidate, rounds in trials.items()}
    kept = [candidate for candidate, result in scores.items() if result.keeps_bound(goal)]
    if not kept:
        return None
    best = max(kept, key=lambda candidate: scores[candidate].rows_per_second)
    tied = [candidate for candidate in kept if candidate == best or _ties(trials[candidate], trials[best], goal)]
    lowest_ms = min(scores[candidate].tail_ms for candidate in tied)
    tied = [candidate for candidate in tied if scores[candidate].tail_ms <= lowest_ms * (1 + SAME_LATENCY)]

    def preference(candidate: Candidate) -> tuple[int, ...]:
        size = candidate.max_batch_size
        return (*candidate.simplicity, size != current.max_batch_size, size)

    return min(tied, key=preference)


def _ties(trials: Sequence[Trial], best: Sequence[Trial], goal: Goal) -> bool:
    """Returns True if the lead of the best candidate is noise: small, or larger and lost in a quarter of the rounds.

    Rounds are compared one by one, since a busy minute of the machine affects every measurement in it.
    """
    ratios = [
        score([trial], goal).rows_per_second / score([best_trial], goal).rows_per_second
        for trial, best_trial in zip(trials, best, strict=True)
    ]
    median, upper = np.quantile(ratios, (0.5, 0.75))
    return bool(median >= 1 - SAME_THROUGHPUT or (median >= 1 - _MAX_NOISE and upper >= 1))

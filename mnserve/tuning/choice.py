"""Which of the finalists is chosen: the fastest, unless another does as well and is simpler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from mnserve.tuning.candidate import Candidate
from mnserve.tuning.scores import Goal, Trial, score

SAME_THROUGHPUT: Final = 0.03
"""Candidates whose throughput is within this share of the best one's, round by round, have the same."""
SAME_LATENCY: Final = 0.1
"""The same for the percentile that the bound is on, which varies more."""
_LARGEST_NOISE: Final = 0.1
"""Share of the throughput beyond which no number of won rounds makes a tie."""


def choose(trials: Mapping[Candidate, Sequence[Trial]], goal: Goal, current: Candidate) -> Candidate | None:
    """The candidate with the highest throughput of those that keep the bound.

    Ties go to the lower latency, and ties of that to fewer instances, fewer threads, less delay, and the batch size
    that is configured already.

    Args:
        trials: finalist -> its trials, in the order of the rounds; as many for each.
        goal: the bound.
        current: what is configured now.

    Returns:
        None where none keeps the bound.
    """
    scores = {one: score(its, goal) for one, its in trials.items()}
    kept = [one for one, its in scores.items() if its.keeps(goal)]
    if not kept:
        return None
    best = max(kept, key=lambda one: scores[one].rows_per_second)
    tied = [one for one in kept if one == best or _ties(trials[one], trials[best], goal)]
    lowest = min(scores[one].tail_ms for one in tied)
    tied = [one for one in tied if scores[one].tail_ms <= lowest * (1 + SAME_LATENCY)]
    changed = current.max_batch_size
    return min(tied, key=lambda one: (*one.simplicity, one.max_batch_size != changed, one.max_batch_size))


def _ties(trials: Sequence[Trial], best: Sequence[Trial], goal: Goal) -> bool:
    """Whether the best one's lead is within noise: small, or not much larger and lost in a quarter of the rounds.

    Rounds are compared one by one, since a busy minute of the machine hits all that is measured in it.
    """
    ratios = [
        score([one], goal).rows_per_second / score([other], goal).rows_per_second
        for one, other in zip(trials, best, strict=True)
    ]
    median, upper = np.quantile(ratios, (0.5, 0.75))
    return bool(median >= 1 - SAME_THROUGHPUT or (median >= 1 - _LARGEST_NOISE and upper >= 1))

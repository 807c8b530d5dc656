"""Search for the best candidate: short measurements along one axis after the other, then rounds of the finalists."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from mnserve.errors import TuningError
from mnserve.tuning.candidate import Candidate
from mnserve.tuning.choice import choose
from mnserve.tuning.scores import Goal, Score, Trial, score
from mnserve.tuning.space import AXES, Space

Measure = Callable[[Candidate], Trial]
"""Measures a candidate once."""

Stage = Literal["search", "final"]

_PASSES: Final = 3
"""Most passes over the axes; a pass without an improvement is the last one."""
_FINALISTS: Final = 3
"""Best candidates of the search that are measured again, in addition to the current one."""


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """Result of a search."""

    current: Candidate
    """The current configuration."""
    chosen: Candidate | None
    """The chosen candidate; None if no candidate keeps the bound."""
    searched: Mapping[Candidate, Score]
    """Candidate -> score of its one short measurement, in the order of the measurements."""
    finals: Mapping[Candidate, Score]
    """Finalist -> score of its rounds alone, since a lucky short measurement may have made it a finalist."""

    def best(self, candidate: Candidate) -> Score:
        """Returns the better founded score: that of the finals, or of the search for all others."""
        return self.finals.get(candidate) or self.searched[candidate]


def search(
    current: Candidate,
    space: Space,
    measure: Measure,
    goal: Goal,
    *,
    repeats: int,
    on_trial: Callable[[Stage, int, Candidate], None] = lambda _stage, _done, _candidate: None,
) -> SearchResult:
    """Finds the candidate with the highest throughput under the bound.

    Args:
        current: The current configuration, measured first and in every round of the finals.
        space: The candidates.
        measure: Measures a candidate once; its errors end the search.
        goal: The bound.
        repeats: Rounds of the finals, at least 1.
        on_trial: Called before every measurement with the stage, the measurements made in it, and the candidate.

    Raises:
        TuningError: The current configuration cannot be measured.
    """
    searched: dict[Candidate, Score] = {}

    def rank(candidate: Candidate) -> float:
        if candidate not in searched:
            on_trial("search", len(searched), candidate)
            searched[candidate] = score([measure(candidate)], goal)
        return searched[candidate].rank(goal)

    rank(current)
    if fault := searched[current].fault:
        raise TuningError(f"what is configured now cannot be measured, so there is nothing to compare with: {fault}")
    best = current
    for _ in range(_PASSES):
        before = best
        for axis in AXES:
            best = min([best, *space.along(axis, best)], key=rank)
        if best == before:
            break
    challengers = sorted((candidate for candidate in searched if candidate != current), key=rank)[:_FINALISTS]
    finalists = [candidate for candidate in (current, *challengers) if not searched[candidate].fault]
    trials: dict[Candidate, list[Trial]] = {candidate: [] for candidate in finalists}
    for turn in range(repeats):
        for candidate in finalists if turn % 2 == 0 else reversed(finalists):
            on_trial("final", sum(map(len, trials.values())), candidate)
            trials[candidate].append(measure(candidate))
    return SearchResult(
        current=current,
        chosen=choose(trials, goal, current),
        searched=searched,
        finals={candidate: score(rounds, goal) for candidate, rounds in trials.items()},
    )

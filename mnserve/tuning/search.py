"""The search: one respect after the other with short measurements, then the best ones against each other in rounds."""

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
"""Passes over the axes; a pass that finds nothing better is the last one."""
_FINALISTS: Final = 3
"""Best candidates of the search that are measured again, the current one not counted."""


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """What a search found."""

    current: Candidate
    """What is configured now."""
    chosen: Candidate | None
    """None where no candidate keeps the bound."""
    searched: Mapping[Candidate, Score]
    """Every candidate by its one short measurement, in the order in which they were measured."""
    finals: Mapping[Candidate, Score]
    """The finalists by their rounds alone: who is picked for a lucky measurement should not be judged by it."""

    def best(self, candidate: Candidate) -> Score:
        """The score that counts: of the finals, or of the search for all others."""
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
        current: what is configured now, measured first and in every round of the finals.
        space: what may be chosen.
        measure: measures a candidate once; what it raises ends the search.
        goal: the bound.
        repeats: rounds of the finals, at least 1.
        on_trial: called before every measurement with the stage, the measurements made in it, and the candidate.

    Raises:
        TuningError: the current configuration cannot be measured.
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
    place = current
    for _ in range(_PASSES):
        before = place
        for axis in AXES:
            place = min([place, *space.along(axis, place)], key=rank)
        if place == before:
            break
    finalists = [current, *sorted((one for one in searched if one != current), key=rank)[:_FINALISTS]]
    trials: dict[Candidate, list[Trial]] = {one: [] for one in finalists if not searched[one].fault}
    for turn in range(repeats):
        for one in list(trials) if turn % 2 == 0 else reversed(list(trials)):
            on_trial("final", sum(map(len, trials.values())), one)
            trials[one].append(measure(one))
    return SearchResult(
        current=current,
        chosen=choose(trials, goal, current),
        searched=searched,
        finals={one: score(its, goal) for one, its in trials.items()},
    )

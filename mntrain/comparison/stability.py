"""Stability of explanations over seeds: whether other runs of a variant name the same training examples.

Shapes: A answers that all runs explain, M training examples that any names.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from mntrain.acting.record import NamedExamples


@dataclass(frozen=True, kw_only=True)
class Stability:
    """Overlap of the training examples that runs with different seeds name for an answer.

    The overlap of two runs is the Jaccard index |A ∩ B| / |A ∪ B| of the sets that they name.

    Args:
        share: mean overlap of the sets for the same test example, over test examples and pairs of runs.
        chance: mean overlap of the sets for two different test examples, of any class, over the same pairs.
        answers: test examples that all runs explain.
        runs: number of runs.
    """

    share: float
    chance: float
    answers: int
    runs: int


def neighbor_stability(named: Sequence[NamedExamples]) -> Stability | None:
    """Compare the runs of a variant, trained and tested on the same split.

    Args:
        named: training examples that explain answers, for each run.

    Returns:
        None for fewer than two runs, or fewer than two test examples that all explain.
    """
    answers = sorted(set.intersection(*(set(one.answers) for one in named))) if named else []
    if len(named) < 2 or len(answers) < 2:
        return None
    marks = _marks(named, answers)
    overlaps = [_overlaps(first, second) for first, second in combinations(marks, 2)]
    different = ~np.eye(len(answers), dtype=bool)
    return Stability(
        share=float(np.mean([overlap.diagonal() for overlap in overlaps])),
        chance=float(np.mean([overlap[different] for overlap in overlaps])),
        answers=len(answers),
        runs=len(named),
    )


def _marks(named: Sequence[NamedExamples], answers: Sequence[int]) -> list[NDArray[np.float32]]:
    """Mark the examples that each run names for each answer: [A, M] of 0 and 1."""
    sets = [dict(zip(one.answers, one.nearest, strict=True)) for one in named]
    examples = sorted({example for of_run in sets for answer in answers for example in of_run[answer]})
    column = {example: place for place, example in enumerate(examples)}
    marks = [np.zeros((len(answers), len(examples)), np.float32) for _ in sets]
    for of_run, marked in zip(sets, marks, strict=True):
        for row, answer in enumerate(answers):
            marked[row, [column[example] for example in of_run[answer]]] = 1
    return marks


def _overlaps(first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.float64]:
    """Jaccard index of every set of one run with every set of another: [A, A]."""
    both = (first @ second.T).astype(np.float64)
    either = first.sum(axis=1)[:, None] + second.sum(axis=1)[None, :] - both
    overlaps: NDArray[np.float64] = both / np.maximum(either, 1)
    return overlaps

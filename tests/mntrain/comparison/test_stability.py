"""Stability of the training examples that runs name, by hand."""

import pytest

from mntrain.acting.record import NamedExamples
from mntrain.comparison.stability import Stability, neighbor_stability


def named(**nearest: tuple[int, ...]) -> NamedExamples:
    return NamedExamples(answers=tuple(int(name[1:]) for name in nearest), nearest=tuple(nearest.values()))


FIRST = named(t10=(1, 2, 3), t20=(4, 5))
SECOND = named(t20=(4, 5), t30=(9,), t10=(2, 3, 4))


def test_overlap_is_that_of_the_same_answers_and_chance_that_of_different_ones() -> None:
    found = neighbor_stability([FIRST, SECOND])
    # |{2, 3}| of |{1, 2, 3, 4}| and all of {4, 5}; for different answers nothing, and |{4}| of |{2, 3, 4, 5}|.
    assert found == Stability(share=pytest.approx(0.75), chance=pytest.approx(0.125), answers=2, runs=2)


def test_every_pair_of_runs_counts_alike() -> None:
    found = neighbor_stability([FIRST, SECOND, FIRST])
    assert found is not None
    assert (found.share, found.chance) == (pytest.approx(2.5 / 3), pytest.approx(0.25 / 3))


@pytest.mark.parametrize("runs", [[], [FIRST], [FIRST, named(t10=(1,))], [FIRST, named(t40=(1,), t50=(2,))]])
def test_without_pairs_or_different_answers_there_is_none(runs: list[NamedExamples]) -> None:
    assert neighbor_stability(runs) is None

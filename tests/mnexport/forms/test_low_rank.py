"""Low-rank forms: exact at full rank, and within the tolerance at the chosen rank."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from mnexport.forms.low_rank.basis import basis_of, second_moments
from mnexport.forms.low_rank.choice import kind_of, low_rank
from mnexport.forms.low_rank.head import NormHead, SubspaceHead
from mnexport.forms.low_rank.norm import LowRankNorm, norm_table
from mnexport.forms.low_rank.queries import RankLimits
from mnexport.forms.low_rank.rank import RankRule
from mnexport.forms.low_rank.subspace import Subspace, subspace_tables, subspaces
from mnexport.forms.meta_neighborhoods import AdaptiveHead
from mntrain.models.meta_neighborhoods.adaptation import inner_problem
from mntrain.models.meta_neighborhoods.inner import CosineProblem, tangent
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods

Build = Callable[..., MetaNeighborhoods]
Queries = Callable[..., Tensor]
ENTRIES, CLASSES, FEATURES = 60, 4, 12


def limits(tolerance: float, *, rank: int | None = None) -> RankLimits:
    return RankLimits(RankRule(tolerance=tolerance, given=rank), 2**20)


COMBINATIONS = [
    {"head": head, "steps": steps, "step_size_form": form, "similarity": similarity}
    for head, steps, form, similarity in itertools.product(
        ("cosine", "dot"), (1, 3), ("scalar", "per_feature", "per_parameter"), ("cosine", "euclidean")
    )
    if not (head == "dot" and steps == 1 and form != "per_parameter")
]


@pytest.mark.parametrize("settings", COMBINATIONS, ids=lambda settings: "-".join(map(str, settings.values())))
def test_all_directions_together_are_exact(settings: dict[str, Any], build: Build, queries: Queries) -> None:
    model = build(**settings).double()
    features = queries(9).double()
    problem = inner_problem(model.head, model.dictionary.keys, model.dictionary.values())
    expected = AdaptiveHead(model, "explicit").double()(features)

    if kind_of(problem, model.steps()) == "norm":
        assert isinstance(problem, CosineProblem)
        weights = torch.rand(50, ENTRIES, dtype=torch.float64).softmax(-1)
        basis = basis_of([tangent(weights, problem)[0]], torch.ones(CLASSES))
        head: torch.nn.Module = NormHead(model, norm_table(problem, basis, CLASSES * FEATURES))
    else:
        weight = model.head.weight
        moments = second_moments([torch.randn(50, *weight.shape, dtype=torch.float64)])
        tables = subspace_tables(problem, weight, model.steps(), subspaces(weight, moments, weight.shape[1]))
        scale = problem.scale if isinstance(problem, CosineProblem) else None
        head = SubspaceHead(model, Subspace(tables, scale, model.step_count))

    torch.testing.assert_close(head.double()(features), expected, atol=1e-9, rtol=0)


@pytest.mark.parametrize("settings", COMBINATIONS, ids=lambda settings: "-".join(map(str, settings.values())))
@pytest.mark.parametrize("tolerance", [2e-2, 1e-4])
def test_the_chosen_rank_keeps_within_a_quarter_of_the_tolerance(
    settings: dict[str, Any], tolerance: float, build: Build, queries: Queries
) -> None:
    model = build(**settings)
    fitted, held_out = queries(40), queries(40, seed=2)

    found = low_rank(model, fitted, held_out, limits(tolerance))

    assert found is not None
    for features, told in ((fitted, found.fitted_error), (held_out, found.held_out_error)):
        expected = AdaptiveHead(model, "explicit")(features).softmax(-1)
        error = float((found.head(features).softmax(-1) - expected).abs().max())
        assert error <= tolerance / 4 + 1e-6
        assert error == pytest.approx(told, abs=1e-5)
    assert found.rank <= CLASSES * model.head.weight.shape[1]
    if tolerance > 1e-3:
        assert found.rank < CLASSES * FEATURES


def test_a_tighter_tolerance_takes_a_higher_rank(build: Build, queries: Queries) -> None:
    model = build()
    ranks = [low_rank(model, queries(40), queries(40, 2), limits(limit)).rank for limit in (0.2, 1e-3, 1e-6)]
    assert ranks == sorted(ranks)
    assert ranks[0] < ranks[-1]


def test_the_norm_is_that_of_the_part_within_the_directions(build: Build) -> None:
    """Against the projection written out."""
    model = build().double()
    problem = inner_problem(model.head, model.dictionary.keys, model.dictionary.values())
    assert isinstance(problem, CosineProblem)
    weights = torch.rand(30, ENTRIES, dtype=torch.float64).softmax(-1)
    directions, along = tangent(weights, problem)
    basis = basis_of([directions], torch.ones(CLASSES))
    table = norm_table(problem, basis, 5)

    found_along, squared = LowRankNorm(table)(weights)

    torch.testing.assert_close(found_along, along, atol=1e-12, rtol=0)
    kept = basis.energies.flatten().argsort(descending=True)[:5]
    expected = torch.zeros(30, CLASSES, dtype=torch.float64)
    for index in kept.tolist():
        group, column = divmod(index, FEATURES)
        expected[:, group] += (directions[:, group] @ basis.vectors[group, :, column]) ** 2
    torch.testing.assert_close(squared, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("settings", COMBINATIONS, ids=lambda settings: "-".join(map(str, settings.values())))
def test_a_rank_that_is_given_is_taken_where_it_keeps_the_tolerance(
    settings: dict[str, Any], build: Build, queries: Queries
) -> None:
    model = build(**settings)
    enough = low_rank(model, queries(40), queries(40, 2), limits(0.02))
    assert enough is not None
    wanted = enough.rank + CLASSES

    found = low_rank(model, queries(40), queries(40, 2), limits(0.02, rank=wanted))

    assert found is not None
    assert found.rank == wanted
    assert max(found.fitted_error, found.held_out_error) <= 0.02
    assert low_rank(model, queries(40), queries(40, 2), limits(1e-6, rank=CLASSES)) is None

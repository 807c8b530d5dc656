"""Approximation of a classifier: its record, and the reason where it is refused."""

from collections.abc import Callable
from typing import Any

import pytest
from torch import Tensor, nn

from mnexport.forms.approximate_classifier import approximate_classifier
from mnexport.forms.cost import HeadSize
from mnexport.forms.plan import Calibration, FormPlan, StaticModel
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods

Build = Callable[..., MetaNeighborhoods]
Queries = Callable[..., Tensor]
ENTRIES, CLASSES, FEATURES = 60, 4, 12


@pytest.fixture
def plan(queries: Queries) -> Callable[..., FormPlan]:
    """Make a plan with images for calibration: ``plan(tolerance=0.01)``."""

    def made(**changes: Any) -> FormPlan:
        calibration = Calibration.halves(queries(40).numpy(), "queries")
        return FormPlan(**({"form": "low_rank", "calibration": calibration} | changes))

    return made


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({}, "norm"),
        ({"similarity": "euclidean"}, "norm"),
        ({"step_size_form": "per_feature"}, "subspace"),
        ({"steps": 3}, "subspace"),
        ({"steps": 3, "head": "dot"}, "subspace"),
    ],
)
def test_the_cost_that_is_recorded_is_that_of_its_kind(
    build: Build, plan: Callable[..., FormPlan], settings: dict[str, Any], kind: str
) -> None:
    model = build(**settings)
    found = approximate_classifier(model, plan(tolerance=0.02), nn.Identity())
    assert isinstance(found, StaticModel)
    size = HeadSize(
        entries=ENTRIES,
        classes=CLASSES,
        features=FEATURES + (model.config.head == "dot"),
        steps=model.step_count,
        shared_keys=(model.similarity, model.config.head) == ("cosine", "cosine"),
    )
    rank = found.record["rank"]
    cost = size.norm(rank) if kind == "norm" else size.subspace(rank)
    assert found.record["kind"] == kind
    assert found.record["costs"] == {"exact": size.exact().to_dict(), "low_rank": cost.to_dict()}


@pytest.mark.parametrize(("steps", "tight"), [(1, True), (3, False)])
def test_auto_takes_an_approximation_only_where_it_costs_less(
    build: Build, plan: Callable[..., FormPlan], steps: int, tight: bool
) -> None:
    """Three steps to a tight tolerance take nearly all directions, which cost more than the exact form."""
    model = build(steps=steps)
    for tolerance, pays in ((0.2, True), (1e-6, tight)):
        asked = approximate_classifier(model, plan(tolerance=tolerance), nn.Identity())
        chosen = approximate_classifier(model, plan(tolerance=tolerance, form="auto"), nn.Identity())
        assert isinstance(asked, StaticModel)
        size = HeadSize(entries=ENTRIES, classes=CLASSES, features=FEATURES, steps=steps)
        cost = size.norm(asked.record["rank"]) if steps == 1 else size.subspace(asked.record["rank"])
        assert (cost.weight <= 0.98 * size.exact().weight) == pays
        if pays:
            assert isinstance(chosen, StaticModel)
        else:
            assert chosen == f"exact: rank {asked.record['rank']} would save no more than 2% of the model's cost"


def test_a_rank_that_loses_too_much_is_told_with_ways_out(build: Build, plan: Callable[..., FormPlan]) -> None:
    refused = approximate_classifier(build(), plan(tolerance=1e-6, rank=2), nn.Identity())
    assert refused == (
        "low_rank with a rank of 2 does not come within 1e-06 of the probabilities of held-out images; take a looser "
        "--tolerance, or leave out --rank, for the fewest directions that do or for an exact form (--form factored or "
        "explicit)"
    )
    without = approximate_classifier(build(), plan(tolerance=1e-6, table_limit=4 * ENTRIES * 8), nn.Identity())
    assert without == (
        "low_rank does not come within 1e-06 of the probabilities of held-out images with tables of 0.00183 MiB; take "
        "a looser --tolerance, or an exact form (--form factored or explicit)"
    )

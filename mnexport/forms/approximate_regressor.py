"""Approximation of a regressor: its low-rank form, where that is within the tolerance and saves enough.

Shapes: N queries, S entries, F features, T targets. rows float32 [N, F], attention ω [N, S], values [N] or [N, T].
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from mnexport.forms.approximate_classifier import WORTH_IT
from mnexport.forms.constants import Constants
from mnexport.forms.cost import Cost
from mnexport.forms.low_rank.queries import RankLimits
from mnexport.forms.low_rank.rank import RankBounds
from mnexport.forms.low_rank.tables import (
    CutTable,
    LastTable,
    LayerFactors,
    cut_tables,
    cut_values,
    factored_tables,
    full_rank,
    max_directions,
)
from mnexport.forms.plan import FormPlan, StaticModel
from mnexport.forms.regression import AdaptiveEstimator, DeployedRegressor
from mntrain.data.standardization import Standardization
from mntrain.layers.attention import attention, similarity
from mntrain.models.meta_neighborhoods.inner_mlp import LayerTable, adapted_values
from mntrain.models.meta_neighborhoods.regression import MetaNeighborhoodsRegressor

_FITTED_KEYS = 1024
# Errors of values have shorter tails than those of probabilities, which hang on how sure the model is of an image.
_SHARE = 0.5


class CutEstimator(nn.Module):
    """Adapted perceptron with cut tables."""

    def __init__(self, exact: AdaptiveEstimator, tables: Sequence[CutTable | LastTable]) -> None:
        super().__init__()
        self.temperature, self.network, self.index = exact.temperature, exact.network, exact.index
        self.tables = nn.ModuleList(Constants(table) for table in tables)

    def weights(self, inputs: Tensor) -> Tensor:
        """Compute the attention [B, S] of standardised rows [B, F]."""
        return attention(similarity(inputs, self.index()), self.temperature)

    def forward(self, inputs: Tensor) -> Tensor:
        """Estimate standardised values [B] or [B, T] of standardised rows [B, F]."""
        return cut_values(
            inputs, self.weights(inputs), self.network.parameters_of_layers(), [table() for table in self.tables]
        )


@torch.no_grad()
def approximate_regressor(
    model: MetaNeighborhoodsRegressor, plan: FormPlan, preprocessing: Standardization
) -> StaticModel | str:
    """Make the low-rank form within the tolerance of ``plan``, or give the reason against it in a sentence."""
    if plan.calibration is None:
        return (
            "low_rank is fitted to some real rows and judged by others, and the artifact holds fewer than two; give "
            "--calibration train, or take --form factored"
        )
    exact = AdaptiveEstimator(model)
    layers = model.network.parameters_of_layers()
    entries = len(model.keys)
    network = sum(weight.numel() for weight, _ in layers)
    exact_cost = _cost(entries, layers, None)
    fitted, held_out = (
        preprocessing(torch.from_numpy(rows)).double() for rows in (plan.calibration.fitted, plan.calibration.held_out)
    )
    wide = AdaptiveEstimator(model).double()
    tables = [LayerTable(table().inputs, wide.step_size * table().errors) for table in wide.tables]
    wide_layers = wide.network.parameters_of_layers()
    queries = torch.cat([fitted, model.keys[:_FITTED_KEYS].double()])
    factors = factored_tables(queries, wide.weights(queries), wide_layers, tables)

    def error(rows: Tensor, rank: int) -> float:
        weights = wide.weights(rows)
        expected = adapted_values(rows, weights, wide_layers, tables, torch.ones((), dtype=rows.dtype))
        return float((cut_values(rows, weights, wide_layers, cut_tables(factors, rank)) - expected).abs().max())

    limits = RankLimits(replace(plan.rank_rule, share=_SHARE), plan.table_limit)
    bounds = RankBounds(
        full=full_rank(factors),
        held=max_directions(factors, limits.columns(entries)),
        table_bytes=plan.table_limit,
        entries=entries,
    )
    rank = limits.rank.choose(lambda rank: max(error(fitted, rank), error(held_out, rank)), bounds)
    if rank is None:
        return _no_rank(plan)
    cut = cut_tables(factors, rank)
    cost = _cost(entries, layers, cut)
    if plan.form == "auto" and exact_cost.weight - cost.weight < WORTH_IT * (exact_cost.weight + network):
        return f"exact: rank {rank} would save no more than {WORTH_IT:.0%} of the model's cost"
    single = [_single(table) for table in cut]
    record = _record(plan, factors, rank, (error(fitted, rank), error(held_out, rank)), (exact_cost, cost))
    module = DeployedRegressor(preprocessing, CutEstimator(exact, single))
    return StaticModel(form="low_rank", module=module, approximate=True, record=record)


def _no_rank(plan: FormPlan) -> str:
    if plan.rank is None:
        return (
            f"no cut of the tables to {plan.table_limit / 2**20:.3g} MiB each comes within {plan.tolerance:g} "
            "deviations of the target; take a looser --tolerance, or --form factored"
        )
    return (
        f"a cut of the tables to a rank of {plan.rank} does not come within {plan.tolerance:g} deviations of the "
        "target; take a looser --tolerance, or leave out --rank, for the fewest directions that do or for --form "
        "factored"
    )


def _single(table: CutTable | LastTable) -> CutTable | LastTable:
    """Convert a table to single precision."""
    kind: type[CutTable] | type[LastTable] = type(table)
    return kind(*(None if item is None else item.float() for item in table))  # type: ignore[arg-type]


def _cost(entries: int, layers: Sequence[tuple[Tensor, Tensor]], tables: Sequence[CutTable | LastTable] | None) -> Cost:
    features = layers[0][0].shape[1]
    if tables is None:
        numbers = sum(entries * sum(weight.shape) for weight, _ in layers)
    else:
        numbers = sum(item.numel() for table in tables for item in table if item is not None)
    return Cost(multiplications=numbers + entries * features, table_numbers=numbers + entries * features)


def _record(
    plan: FormPlan,
    factors: Sequence[LayerFactors],
    rank: int,
    errors: tuple[float, float],
    costs: tuple[Cost, Cost],
) -> dict[str, Any]:
    assert plan.calibration is not None
    return {
        "kind": "tables",
        "rank": rank,
        "full_rank": full_rank(factors),
        "tolerance": plan.tolerance,
        "calibration": {
            "source": plan.calibration.source,
            "fitted": len(plan.calibration.fitted),
            "fitted_error": errors[0],
            "held_out": len(plan.calibration.held_out),
            "held_out_error": errors[1],
        },
        "costs": {"exact": costs[0].to_dict(), "low_rank": costs[1].to_dict()},
    }

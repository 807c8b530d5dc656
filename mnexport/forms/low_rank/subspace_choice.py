"""Choice of the number of directions of each class, where the adapted weight itself is approximated.

Shapes: N queries, S entries, C classes, d features. attention ω [N, S], weights w [C, d], logits [N, C].
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from mnexport.forms.low_rank.basis import second_moments
from mnexport.forms.low_rank.head import SubspaceHead
from mnexport.forms.low_rank.queries import (
    AdaptationSetting,
    FittingQueries,
    LowRank,
    Queries,
    RankLimits,
    largest_error,
)
from mnexport.forms.low_rank.rank import RankBounds
from mnexport.forms.low_rank.subspace import Subspace, subspace_tables, subspaces
from mntrain.layers.attention import unit
from mntrain.models.meta_neighborhoods.inner import CosineProblem, adapted_weight
from mntrain.models.meta_neighborhoods.inner_dot import dot_adapted_weight, with_bias


def choose_subspace(setting: AdaptationSetting, data: FittingQueries, limits: RankLimits) -> LowRank | None:
    """Choose the fewest directions of each class within the limits."""
    problem, weight = setting.problem, setting.model.head.weight.double()
    classes, features = weight.shape
    moments = second_moments(_paths(setting, data.directions, weight))
    directions = subspaces(weight, moments, features)  # the strongest first, so that a rank is a part of them
    scale = problem.scale if isinstance(problem, CosineProblem) else None

    def build(rank: int) -> Subspace:
        tables = subspace_tables(problem, weight, setting.steps, directions[:, :, : rank // classes])
        return Subspace(tables, scale, setting.steps.count)

    def error(queries: Queries, rank: int) -> float:
        subspace = build(rank)
        query = unit(queries.features) if scale is not None else with_bias(queries.features)
        parts = [subspace(query[part], queries.weights[part]) for part in setting.parts(len(query))]
        return largest_error(torch.cat(parts), queries)

    entries = len(problem.keys)
    bounds = RankBounds(
        full=classes * features,
        held=limits.columns(entries),
        table_bytes=limits.table_bytes,
        entries=entries,
        unit=classes,
    )
    rank = limits.rank.choose(lambda rank: max(error(data.fitted, rank), error(data.held_out, rank)), bounds)
    if rank is None:
        return None
    head = SubspaceHead(setting.model, build(rank).float())
    return LowRank("subspace", head, rank, error(data.fitted, rank), error(data.held_out, rank))


def _paths(setting: AdaptationSetting, weights: Tensor, weight: Tensor) -> Iterator[Tensor]:
    """Yield the moves of the weights by every step, w' − w [n, C, d], of all queries in parts."""
    problem, size = setting.problem, setting.steps.size
    for part in setting.parts(len(weights)):
        for count in range(1, setting.steps.count + 1):
            if isinstance(problem, CosineProblem):
                moved = adapted_weight(weights[part], problem, weight, size, count)
            else:
                moved = dot_adapted_weight(weights[part], problem, weight, size, count)
            yield moved - weight

"""How many directions each class needs, where the adapted weight itself is approximated.

Shapes: N queries, S entries, C classes, d features. attention ω [N, S], weights w [C, d], logits [N, C].
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from mnexport.forms.low_rank.basis import second_moments
from mnexport.forms.low_rank.head import SubspaceHead
from mnexport.forms.low_rank.queries import Data, Limits, LowRank, Queries, Setting, worst
from mnexport.forms.low_rank.rank import Room
from mnexport.forms.low_rank.subspace import Subspace, subspace_tables, subspaces
from mntrain.layers.unit import unit
from mntrain.models.meta_neighborhoods.inner import CosineProblem, adapted_weight
from mntrain.models.meta_neighborhoods.inner_dot import dot_adapted_weight, with_bias


def choose_subspace(setting: Setting, data: Data, limits: Limits) -> LowRank | None:
    """The fewest directions a class within the limits."""
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
        return worst(torch.cat(parts), queries)

    entries = len(problem.keys)
    room = Room(
        full=classes * features,
        held=limits.columns(entries),
        table_bytes=limits.table_bytes,
        entries=entries,
        unit=classes,
    )
    rank = limits.rank.choose(lambda rank: max(error(data.fitted, rank), error(data.held_out, rank)), room)
    if rank is None:
        return None
    head = SubspaceHead(setting.model, build(rank).float())
    return LowRank("subspace", head, rank, error(data.fitted, rank), error(data.held_out, rank))


def _paths(setting: Setting, weights: Tensor, weight: Tensor) -> Iterator[Tensor]:
    """How far every step has moved the weights, w' − w [n, C, d], of all queries in parts."""
    problem, size = setting.problem, setting.steps.size
    for part in setting.parts(len(weights)):
        for count in range(1, setting.steps.count + 1):
            if isinstance(problem, CosineProblem):
                moved = adapted_weight(weights[part], problem, weight, size, count)
            else:
                moved = dot_adapted_weight(weights[part], problem, weight, size, count)
            yield moved - weight

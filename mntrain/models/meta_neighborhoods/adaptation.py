"""The inner update of either head, from features to adapted logits, in the cheapest exact form.

Shapes: B queries, S entries, C classes, d features. features z [B, d], keys k [S, d], values v [S, C],
attention ω [B, S], logits [B, C]. Step size α: [], [d] or [C, d] (d+1 for the dot-product classifier).
"""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor
from torch.linalg import vector_norm

from mntrain.layers.attention import unit
from mntrain.layers.heads import CosineHead, Head
from mntrain.models.meta_neighborhoods.inner import (
    CosineProblem,
    adapted_weight,
    cosine_problem,
    explicit_logits,
    factored_logits,
)
from mntrain.models.meta_neighborhoods.inner_dot import (
    DotProblem,
    dot_adapted_weight,
    dot_explicit_logits,
    dot_factored_logits,
    dot_problem,
    with_bias,
)

InnerForm = Literal["explicit", "factored"]
InnerProblem = CosineProblem | DotProblem


@dataclass(frozen=True, kw_only=True)
class InnerSteps:
    """Steps of the inner update.

    Args:
        count: number of steps, all on the same attention.
        size: α.
    """

    count: int
    size: Tensor


def inner_problem(head: Head, keys: Tensor, values: Tensor) -> InnerProblem:
    """Collect the inner problem of a head: functions of the parameters alone."""
    if isinstance(head, CosineHead):
        return cosine_problem(keys, values, head.weight, head.scale)
    return dot_problem(keys, values, head.weight)


def cheapest_form(problem: InnerProblem, steps: InnerSteps) -> InnerForm:
    """Choose ``factored`` where it is exact: one step, of scalar size (or per feature, for the dot product)."""
    exact_dimensions = 0 if isinstance(problem, CosineProblem) else 1
    return "factored" if steps.count == 1 and steps.size.dim() <= exact_dimensions else "explicit"


def adapted_logits(
    features: Tensor, weights: Tensor, problem: InnerProblem, weight: Tensor, steps: InnerSteps, form: InnerForm
) -> Tensor:
    """Compute logits [B, C] after the inner update.

    Args:
        features: z [B, d].
        weights: ω [B, S].
        weight: of the head before adaptation, [C, d] or [C, d+1].
        form: ``factored`` only where :func:`cheapest_form` allows it.
    """
    if isinstance(problem, CosineProblem):
        query = unit(features)
        if form == "factored":
            return factored_logits(query, query @ problem.keys.mT, weights, problem, steps.size)
        return explicit_logits(query, weights, problem, weight, steps.size, steps.count)
    query = with_bias(features)
    if form == "factored":
        return dot_factored_logits(query, weights, problem, weight, steps.size)
    return dot_explicit_logits(query, weights, problem, weight, steps.size, steps.count)


def weight_change(weights: Tensor, problem: InnerProblem, weight: Tensor, steps: InnerSteps) -> Tensor:
    """Relative change ‖w' − w‖ / ‖w‖ [B] of all weights of a head by the inner update.

    Args:
        weights: ω [B, S].
        weight: of the head before adaptation, [C, d] or [C, d+1].
    """
    if isinstance(problem, CosineProblem):
        adapted = adapted_weight(weights, problem, weight, steps.size, steps.count)
    else:
        adapted = dot_adapted_weight(weights, problem, weight, steps.size, steps.count)
    change: Tensor = vector_norm(adapted - weight, dim=(1, 2)) / vector_norm(weight)
    return change

"""The inner update of Meta-Neighborhoods in closed form (Meta-Neighborhoods, eq. 3).

Gradient steps of a classifier on the attention-weighted loss of the dictionary entries are written out, so that
inference takes no gradient. Pure functions of tensors: training differentiates through them (which yields the complete
second-order meta-gradient), the exporter traces the very same functions.

This file has the cosine classifier; ``inner_dot.py`` has the dot-product classifier.

Shapes: B queries, S dictionary entries, C classes, d features. A hat marks rows of unit length.

    query        ẑ  [B, d]     keys       k̂ [S, d]     values    v [S, C], rows sum to 1
    attention    ω  [B, S]     weight     w  [C, d]     prototypes ŵ [C, d]
    similarity   P  [B, S] = ẑ k̂ᵀ        cosines   [S, C] = k̂ ŵᵀ
    residuals    E  [S, C] = softmax(τ cosines) − v
    scale τ, temperature T: shape []; step size α: [], [d] (per feature) or [C, d] (per parameter)
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.linalg import vector_norm

from mntrain.layers.attention import unit


class CosineProblem(NamedTuple):
    """Parts of the inner loss that all queries share: functions of the parameters alone, constants after training."""

    keys: Tensor  # k̂ [S, d]
    prototypes: Tensor  # ŵ [C, d]
    weight_norm: Tensor  # ‖w_c‖ [C]
    cosines: Tensor  # [S, C]
    residuals: Tensor  # E [S, C]
    scale: Tensor  # τ []
    values: Tensor  # v [S, C]


def cosine_problem(keys: Tensor, values: Tensor, weight: Tensor, scale: Tensor) -> CosineProblem:
    """Compute the parts of the inner loss that depend on the parameters only.

    Args:
        keys: k [S, d], of any length.
        values: v [S, C], class probabilities.
        weight: w [C, d], the classifier before adaptation.
        scale: τ [], the scale of the cosine logits.
    """
    unit_keys, prototypes = unit(keys), unit(weight)
    cosines = unit_keys @ prototypes.mT
    residuals = torch.softmax(scale * cosines, dim=-1) - values
    return CosineProblem(unit_keys, prototypes, weight.norm(dim=-1), cosines, residuals, scale, values)


def tangent(weights: Tensor, problem: CosineProblem) -> tuple[Tensor, Tensor]:
    """Gradient direction of every class at w, and the component that the projection removed.

    With u_c = Σ_j ω_j E_jc k̂_j and s_c = ŵ_c · u_c, the gradient of the inner loss is
    (τ / ‖w_c‖)(u_c − s_c ŵ_c): it has no component along w_c, because a cosine ignores the length of w_c.

    Args:
        weights: ω [B, S].

    Returns:
        u − s ŵ [B, C, d] and s [B, C].
    """
    # [B, C, S] × [S, d] is one matrix product with the keys as they stand: no [S, C·d] table has to be read.
    mixed = (weights.unsqueeze(1) * problem.residuals.mT) @ problem.keys
    along = weights @ (problem.residuals * problem.cosines)
    return mixed - along.unsqueeze(-1) * problem.prototypes, along


def classifier_gradient(weights: Tensor, problem: CosineProblem) -> Tensor:
    """Gradient ∇_w of Σ_j ω_j CE(softmax(τ cos(k_j, w)), v_j) at w, for every query: [B, C, d]."""
    direction, _ = tangent(weights, problem)
    return (problem.scale / problem.weight_norm).unsqueeze(-1) * direction


def gradient_at(weights: Tensor, problem: CosineProblem, adapted: Tensor) -> Tensor:
    """Gradient of the inner loss at weights that differ from query to query: from the second step on.

    Args:
        weights: ω [B, S].
        adapted: w' [B, C, d].

    Returns:
        ∇ [B, C, d]. The largest intermediate is [B, C, S].
    """
    prototypes = unit(adapted)
    cosines = prototypes @ problem.keys.mT
    residuals = torch.softmax(problem.scale * cosines, dim=1) - problem.values.mT
    weighted = weights.unsqueeze(1) * residuals
    along = (weighted * cosines).sum(dim=-1, keepdim=True)
    length: Tensor = vector_norm(adapted, dim=-1, keepdim=True)
    return (problem.scale / length) * (weighted @ problem.keys - along * prototypes)


def adapted_weight(
    weights: Tensor, problem: CosineProblem, weight: Tensor, step_size: Tensor, steps: int = 1
) -> Tensor:
    """Weights w' after ``steps`` steps w ← w − α ∇_w on the same attention, for every query: [B, C, d].

    Args:
        weights: ω [B, S].
        weight: w [C, d].
        step_size: α [], [d] or [C, d].
    """
    adapted = weight - step_size * classifier_gradient(weights, problem)
    for _ in range(steps - 1):
        adapted = adapted - step_size * gradient_at(weights, problem, adapted)
    return adapted


def explicit_logits(
    query: Tensor, weights: Tensor, problem: CosineProblem, weight: Tensor, step_size: Tensor, steps: int = 1
) -> Tensor:
    """Logits τ cos(z, w') from explicit adapted weights w' [B, C, d]: the reference form, right for every step size.

    Args:
        query: ẑ [B, d].
        weights: ω [B, S].
        weight: w [C, d].
        step_size: α [], [d] or [C, d].
        steps: inner steps.

    Returns:
        Logits [B, C].
    """
    adapted = unit(adapted_weight(weights, problem, weight, step_size, steps))
    return problem.scale * (adapted @ query.unsqueeze(-1)).squeeze(-1)


def factored_logits(
    query: Tensor, similarity: Tensor, weights: Tensor, problem: CosineProblem, step_size: Tensor
) -> Tensor:
    """Logits after one step of scalar size, from w'·ẑ and ‖w'‖ alone; w' is never built.

    With β_c = ατ/‖w_c‖ the numerator is w_c·ẑ − β_c([(ω∘P)E]_c − s_c ŵ_c·ẑ), of cost S·C, and
    ‖w'_c‖² = ‖w_c‖² + β_c²‖u_c − s_c ŵ_c‖² because the gradient is orthogonal to w_c.

    Args:
        query: ẑ [B, d].
        similarity: P [B, S] = ẑ k̂ᵀ.
        weights: ω [B, S].
        step_size: α [].

    Returns:
        Logits [B, C].
    """
    direction, along = tangent(weights, problem)
    return logits_of_norm(query, similarity, weights, problem, step_size, along, direction.square().sum(dim=-1))


def logits_of_norm(
    query: Tensor,
    similarity: Tensor,
    weights: Tensor,
    problem: CosineProblem,
    step_size: Tensor,
    along: Tensor,
    squared_tangent: Tensor,
    mix: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Logits of :func:`factored_logits` from known s and ‖u − s ŵ‖².

    Args:
        along: s [B, C].
        squared_tangent: ‖u_c − s_c ŵ_c‖² [B, C].
        mix: product of rows [B, S] with the residuals; None takes those of the problem.
    """
    cosine = query @ problem.prototypes.mT
    beta = step_size * problem.scale / problem.weight_norm
    paired = weights * similarity
    pull = (paired @ problem.residuals if mix is None else mix(paired)) - along * cosine
    numerator = problem.weight_norm * cosine - beta * pull
    squared_norm = problem.weight_norm.square() + beta.square() * squared_tangent
    return problem.scale * numerator * torch.rsqrt(squared_norm)

"""The inner update in closed form for a dot-product classifier with bias.

The bias is a weight on a constant feature: φ = [w, b] [C, d+1], z̃ = [z, 1], k̃ = [k, 1]. Every formula is then the one
without bias, and a step size per feature or per parameter covers the bias too.

Shapes: B queries, S dictionary entries, C classes, d features.

    query z̃ [B, d+1]   keys k̃ [S, d+1]   values v [S, C]   attention ω [B, S]   weight φ [C, d+1]
    residuals E [S, C] = softmax(k̃ φᵀ) − v;   step size α: [], [d+1] or [C, d+1]
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad


class DotProblem(NamedTuple):
    """Parts of the inner loss that all queries share: functions of the parameters alone."""

    keys: Tensor  # k̃ [S, d+1]
    residuals: Tensor  # E [S, C]
    values: Tensor  # v [S, C]


def with_bias(x: Tensor) -> Tensor:
    """Append the constant feature of the bias: x [..., d] → [x, 1] [..., d+1]."""
    return pad(x, (0, 1), value=1.0)


def dot_problem(keys: Tensor, values: Tensor, weight: Tensor) -> DotProblem:
    """Compute the parts of the inner loss that depend on the parameters only.

    Args:
        keys: k [S, d].
        values: v [S, C], class probabilities.
        weight: φ [C, d+1], the classifier before adaptation.
    """
    extended = with_bias(keys)
    return DotProblem(extended, torch.softmax(extended @ weight.mT, dim=-1) - values, values)


def dot_adapted_weight(
    weights: Tensor, problem: DotProblem, weight: Tensor, step_size: Tensor, steps: int = 1
) -> Tensor:
    """Weights φ' after ``steps`` steps on the same attention, for every query: [B, C, d+1]."""
    adapted = weight - step_size * ((weights.unsqueeze(1) * problem.residuals.mT) @ problem.keys)
    for _ in range(steps - 1):
        residuals = torch.softmax(adapted @ problem.keys.mT, dim=1) - problem.values.mT
        adapted = adapted - step_size * ((weights.unsqueeze(1) * residuals) @ problem.keys)
    return adapted


def dot_explicit_logits(
    query: Tensor, weights: Tensor, problem: DotProblem, weight: Tensor, step_size: Tensor, steps: int = 1
) -> Tensor:
    """Logits z̃·φ' [B, C] from explicit adapted weights: right for every step size and number of steps.

    Args:
        query: z̃ [B, d+1].
        weights: ω [B, S].
        weight: φ [C, d+1].
        step_size: α [], [d+1] or [C, d+1].
    """
    adapted = dot_adapted_weight(weights, problem, weight, step_size, steps)
    return (adapted @ query.unsqueeze(-1)).squeeze(-1)


def dot_factored_logits(
    query: Tensor, weights: Tensor, problem: DotProblem, weight: Tensor, step_size: Tensor
) -> Tensor:
    """Logits [B, C] after one step of size [] or [d+1], of cost S·C: the gradient is a sum of rank-one terms E_jc k̃_j.

    z̃·φ'_c = z̃·φ_c − [(ω ∘ ((α∘z̃) k̃ᵀ)) E]_c.
    """
    return query @ weight.mT - (weights * ((step_size * query) @ problem.keys.mT)) @ problem.residuals

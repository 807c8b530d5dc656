"""Low-rank subspaces: the adapted weight of each class in r orthonormal directions instead of d features.

The form has any number of steps and form of step size. With w'_c = Q_c x_c the inner update needs of a key only its
products with the r columns of Q_c, and a diagonal step size becomes a small matrix. These are the steps of ``inner.py``
and ``inner_dot.py`` in other coordinates, exact where Q_c spans every direction in which w_c is moved.

Shapes: B queries, S entries, C classes, d features (d + 1 with the bias of a dot-product classifier), r directions.

    directions Q [C, d, r]      coordinates x [C, B, r]      attention ω [B, S]      logits [B, C]
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.linalg import vector_norm

from mnexport.forms.constants import Constants
from mntrain.models.meta_neighborhoods.adaptation import InnerProblem, InnerSteps
from mntrain.models.meta_neighborhoods.inner import CosineProblem


class SubspaceTables(NamedTuple):
    """Constants of the inner problem in the coordinates of the subspaces."""

    start: Tensor  # Qᵀ w [C, 1, r]
    queries: Tensor  # Q of all classes side by side [d, C·r]
    keys: Tensor  # Qᵀ kᵀ [C, r, S]: what a key is compared by
    moves: Tensor  # (α ∘ k) Q [C, S, r]: where a key pulls
    first: Tensor  # α-scaled pulls times the residuals at w [S, C·r]: the first step
    first_along: Tensor  # E ∘ cosines [S, C]
    size: Tensor  # Qᵀ diag(α) Q [C, r, r]
    values: Tensor  # vᵀ [C, 1, S]


def subspace_tables(problem: InnerProblem, weight: Tensor, steps: InnerSteps, directions: Tensor) -> SubspaceTables:
    """Compute the constants of a model.

    Args:
        problem: the inner problem.
        weight: w [C, d] before adaptation.
        steps: number and size.
        directions: Q [C, d, r], orthonormal columns.
    """
    classes, features, rank = directions.shape
    size = steps.size.expand(classes, features)
    moves = (size.unsqueeze(1) * problem.keys) @ directions
    cosines = problem.cosines if isinstance(problem, CosineProblem) else torch.zeros_like(problem.residuals)
    return SubspaceTables(
        start=weight.unsqueeze(1) @ directions,
        queries=directions.transpose(0, 1).reshape(features, classes * rank),
        keys=(problem.keys @ directions).mT,
        moves=moves,
        first=(problem.residuals.mT.unsqueeze(-1) * moves).transpose(0, 1).reshape(-1, classes * rank),
        first_along=problem.residuals * cosines,
        size=directions.mT @ (size.unsqueeze(-1) * directions),
        values=problem.values.mT.unsqueeze(1),
    )


class Subspace(nn.Module):
    """Adapted classifier in the coordinates of the subspaces.

    Args:
        tables: of :func:`subspace_tables`.
        scale: τ of a cosine classifier, None for a dot product.
        steps: inner steps.
    """

    scale: Tensor | None

    def __init__(self, tables: SubspaceTables, scale: Tensor | None, steps: int) -> None:
        super().__init__()
        self.tables: Constants[SubspaceTables] = Constants(tables)
        self.register_buffer("scale", None if scale is None else scale.detach().clone())
        self.steps = steps

    def forward(self, query: Tensor, weights: Tensor) -> Tensor:
        """Compute logits [B, C] from a query ẑ or z̃ [B, d] and attention ω [B, S]."""
        tables = self.tables()
        classes, rank = tables.start.shape[0], tables.start.shape[2]
        pulls = (weights @ tables.first).unflatten(1, (classes, rank)).transpose(0, 1)
        along = (weights @ tables.first_along).mT.unsqueeze(-1)
        coordinates = tables.start - self._move(tables, tables.start, pulls, along)
        for _ in range(self.steps - 1):
            scores = coordinates @ tables.keys
            cosines = scores if self.scale is None else scores / vector_norm(coordinates, dim=-1, keepdim=True)
            residuals = torch.softmax(cosines if self.scale is None else self.scale * cosines, dim=0) - tables.values
            weighted = weights * residuals
            along = (weighted * cosines).sum(dim=-1, keepdim=True)
            coordinates = coordinates - self._move(tables, coordinates, weighted @ tables.moves, along)
        seen = (query @ tables.queries).unflatten(1, (classes, rank)).transpose(0, 1)
        logits = (seen * coordinates).sum(dim=-1)
        if self.scale is not None:
            logits = self.scale * logits / vector_norm(coordinates, dim=-1)
        answers: Tensor = logits.mT
        return answers

    def _move(self, tables: SubspaceTables, coordinates: Tensor, pulls: Tensor, along: Tensor) -> Tensor:
        """Compute α ∘ ∇ at ``coordinates``; the gradient of a cosine has no component along them."""
        if self.scale is None:
            return pulls
        length: Tensor = vector_norm(coordinates, dim=-1, keepdim=True)
        return (self.scale / length) * (pulls - along * (coordinates / length) @ tables.size)


def subspaces(weight: Tensor, moments: Tensor, rank: int) -> Tensor:
    """Compute Q [C, d, r]: the weight itself, and the strongest directions across it in which it is moved.

    Args:
        weight: w [C, d].
        moments: second moments of w' − w [C, d, d].
        rank: r, from 1 to d.
    """
    own = (weight / vector_norm(weight, dim=-1, keepdim=True).clamp_min(1e-12)).unsqueeze(-1)
    along = own @ own.mT
    across = torch.eye(weight.shape[1], dtype=weight.dtype) - along
    # Eigenvalues ascend: the strongest directions stand last, and the weight itself, made negative, first.
    least = moments.diagonal(dim1=-2, dim2=-1).sum(dim=-1)[:, None, None] + 1
    _, vectors = torch.linalg.eigh(across @ moments @ across - least * along)
    return torch.cat([own, vectors.flip(-1)[:, :, : rank - 1]], dim=-1)

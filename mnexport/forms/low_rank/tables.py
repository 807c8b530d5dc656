"""The adapted perceptron with the tables of its layers cut to the directions that matter for its answer.

A layer needs of a query (ω ∘ (h Aᵀ + 1)) D. Both tables are factored, A ≈ A' B and D ≈ D' C, so that the long axis S
meets r + s numbers instead of i + o.

Shapes: B queries, S entries, N calibration queries; layer l maps i to o, ranks r and s.

    inputs    A [S, i] ≈ A' [S, r] B [r, i]      hidden      h [B, i], second moment over N: H [i, i]
    errors    D [S, o] ≈ D' [S, s] C [s, o]      gradients   of the answer by the layer's output, second moment G [o, o]

Singular values are taken of A and D weighted by what an error in them does to the answer: columns of A by H, columns of
D by G, rows of both by the mean attention of the entry and the size of its other table. They are comparable over
tables and layers, so that one order tells what to keep.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from mntrain.models.meta_neighborhoods.inner_mlp import Layers, LayerTable

# Directions that no calibration query took may be taken by others.
_RIDGE = 1e-4


class Factors(NamedTuple):
    """A weighted singular value decomposition of a table: rows [S, k] times columns [k, width], strongest first."""

    rows: Tensor
    columns: Tensor
    strengths: Tensor  # singular values [k], in units of the answer

    def cut(self, rank: int) -> tuple[Tensor, Tensor]:
        """Rows [S, rank] and columns [rank, width]."""
        return self.rows[:, :rank], self.columns[:rank]


class LayerFactors(NamedTuple):
    """Both tables of a layer."""

    inputs: Factors
    errors: Factors


class CutTable(NamedTuple):
    """One layer of the approximation."""

    inputs: Tensor  # A'ᵀ [r, S]
    hidden: Tensor  # Bᵀ [i, r]
    errors: Tensor  # D' [S, s]
    outputs: Tensor  # C [s, o]


def factored_tables(
    queries: Tensor, weights: Tensor, layers: Layers, tables: Sequence[LayerTable]
) -> tuple[LayerFactors, ...]:
    """Decompose the tables of every layer.

    Args:
        queries: standardised rows [N, F].
        weights: ω [N, S].
        layers: weight and bias of every layer.
        tables: of :func:`layer_tables`, errors already times the step size.
    """
    hidden, gradients = _moments(queries, weights, layers, tables)
    attention = weights.mean(dim=0)
    # An entry that no calibration query attends to may be attended to by others.
    attention = (attention + _RIDGE * attention.mean()).unsqueeze(-1)
    found = []
    for table, before, after in zip(tables, hidden, gradients, strict=True):
        size_of_inputs = (table.inputs @ before.root).norm(dim=-1, keepdim=True) + 1
        size_of_errors = (table.errors @ after.root).norm(dim=-1, keepdim=True)
        found.append(
            LayerFactors(
                _decompose(table.inputs, attention * size_of_errors, before),
                _decompose(table.errors, attention * size_of_inputs, after),
            )
        )
    return tuple(found)


def cut_tables(factors: Sequence[LayerFactors], rank: int) -> tuple[CutTable, ...]:
    """The tables of all layers with their ``rank`` strongest directions, at least one in each."""
    strengths = torch.cat([side.strengths for layer in factors for side in layer])
    least = torch.sort(strengths, descending=True).values[rank - 1]
    cut = []
    for layer in factors:
        parts = [side.cut(max(1, int((side.strengths >= least).sum()))) for side in layer]
        (inputs, hidden), (errors, outputs) = parts
        cut.append(CutTable(inputs.mT.contiguous(), hidden.mT.contiguous(), errors.contiguous(), outputs.contiguous()))
    return tuple(cut)


def cut_values(queries: Tensor, weights: Tensor, layers: Layers, tables: Sequence[CutTable]) -> Tensor:
    """What :func:`adapted_values` computes, with cut tables: [B].

    Args:
        queries: standardised rows [B, F].
        weights: ω [B, S].
        layers: weight and bias of every layer.
        tables: of :func:`cut_tables`.
    """
    hidden = queries
    for position, ((weight, bias), table) in enumerate(zip(layers, tables, strict=True)):
        pulls = weights * ((hidden @ table.hidden) @ table.inputs + 1)
        hidden = hidden @ weight.mT + bias - (pulls @ table.errors) @ table.outputs
        if position + 1 < len(layers):
            hidden = torch.relu(hidden)
    return hidden.squeeze(-1)


class _Root(NamedTuple):
    """M^½ and M^-½ of a second moment M."""

    root: Tensor
    inverse: Tensor


def _decompose(table: Tensor, row_weights: Tensor, columns: _Root) -> Factors:
    _, strengths, right = torch.linalg.svd((table * row_weights) @ columns.root, full_matrices=False)
    return Factors(table @ columns.root @ right.mT, right @ columns.inverse, strengths)


def _root(vectors: Tensor) -> _Root:
    moment = vectors.mT @ vectors / len(vectors)
    size = moment.diagonal().mean().clamp_min(torch.finfo(moment.dtype).tiny)
    values, basis = torch.linalg.eigh(moment + _RIDGE * size * torch.eye(len(moment), dtype=moment.dtype))
    return _Root((basis * values.sqrt()) @ basis.mT, (basis * values.rsqrt()) @ basis.mT)


@torch.enable_grad()
def _moments(
    queries: Tensor, weights: Tensor, layers: Layers, tables: Sequence[LayerTable]
) -> tuple[list[_Root], list[_Root]]:
    """Roots of H and G of every layer, along the exact adapted pass."""
    hidden, inputs, outputs = queries, [], []
    for position, ((weight, bias), table) in enumerate(zip(layers, tables, strict=True)):
        inputs.append(hidden)
        moved = (weights * (hidden @ table.inputs.mT + 1)) @ table.errors
        # A gradient has to be wanted somewhere: of the first output, on which all others depend.
        output = hidden @ weight.mT + bias - moved
        outputs.append(output if position else output.detach().requires_grad_())
        hidden = torch.relu(outputs[-1]) if position + 1 < len(layers) else outputs[-1]
    gradients = torch.autograd.grad(hidden.sum(), outputs)
    return [_root(item.detach()) for item in inputs], [_root(item) for item in gradients]

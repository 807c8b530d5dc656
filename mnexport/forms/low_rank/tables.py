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
from torch.nn.functional import linear

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

    inputs: Tensor  # A' [S, r], or A where r would be i
    hidden: Tensor | None  # B [r, i]
    errors: Tensor  # D' [S, s], or D where s would be o
    outputs: Tensor | None  # C [s, o]
    ones: Tensor  # [S]


class LastTable(NamedTuple):
    """A layer with one output, where ω can be summed before the query is seen: D (A', 1) has only r + 1 columns."""

    products: Tensor  # D ∘ (A', 1) [S, r + 1]
    hidden: Tensor | None  # B [r, i]


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


def cut_tables(factors: Sequence[LayerFactors], rank: int) -> tuple[CutTable | LastTable, ...]:
    """The tables of all layers with their ``rank`` strongest directions, at least one in each."""
    strengths = torch.cat([side.strengths for layer in factors for side in layer])
    least = torch.sort(strengths, descending=True).values[rank - 1]
    cut: list[CutTable | LastTable] = []
    for layer in factors:
        parts = [side.cut(max(1, int((side.strengths >= least).sum()))) for side in layer]
        (inputs, hidden), (errors, outputs) = (_joined(*part) for part in parts)
        ones = torch.ones_like(inputs[:, 0])
        if errors.shape[1] == 1 and outputs is None:
            cut.append(LastTable(errors * torch.cat([inputs, ones.unsqueeze(-1)], dim=1), hidden))
        else:
            cut.append(CutTable(inputs, hidden, errors, outputs, ones))
    return tuple(cut)


def _joined(rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor | None]:
    """Both factors, or their product where nothing was cut."""
    if len(columns) == columns.shape[1]:
        return (rows @ columns).contiguous(), None
    return rows.contiguous(), columns.contiguous()


def cut_values(queries: Tensor, weights: Tensor, layers: Layers, tables: Sequence[CutTable | LastTable]) -> Tensor:
    """What :func:`adapted_values` computes, with cut tables: [B].

    Args:
        queries: standardised rows [B, F].
        weights: ω [B, S].
        layers: weight and bias of every layer.
        tables: of :func:`cut_tables`.
    """
    hidden = queries
    for position, ((weight, bias), table) in enumerate(zip(layers, tables, strict=True)):
        seen = hidden if table.hidden is None else hidden @ table.hidden.mT
        if isinstance(table, LastTable):
            sums = weights @ table.products
            moved = (sums[:, :-1] * seen).sum(dim=-1, keepdim=True) + sums[:, -1:]
        else:
            moved = (weights * linear(seen, table.inputs, table.ones)) @ table.errors
            if table.outputs is not None:
                moved = moved @ table.outputs
        hidden = linear(hidden, weight, bias) - moved
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

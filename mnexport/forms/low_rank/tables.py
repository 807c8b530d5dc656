"""Cut tables: the adapted perceptron with its tables reduced to the directions that matter for its answer.

A layer needs of a query (ω ∘ (h Aᵀ + 1)) D. Both tables are factored, A ≈ A' B and D ≈ D' C, so that the long axis S
meets r + s numbers instead of i + o.

Shapes: B queries, S entries, T targets, N calibration queries; layer l maps i to o (the last one to T), ranks r and s.

    inputs    A [S, i] ≈ A' [S, r] B [r, i]      hidden      h [B, i], second moment over N: H [i, i]
    errors    D [S, o] ≈ D' [S, s] C [s, o]      gradients   of an answer by the layer's output, second moment G [o, o]

Singular values are taken of A and D weighted by what an error in them does to the answer: columns of A by H, columns of
D by G, rows of both by the mean attention of the entry and the size of its other table. The values are comparable over
tables and layers, so that one order of all of them decides what is kept.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from mntrain.layers.mlp import as_values
from mntrain.models.meta_neighborhoods.inner_mlp import Layers, LayerTable

# Directions that no calibration query took may be taken by others.
_RIDGE = 1e-4
# Up to this width a layer's inputs are factored even where nothing is cut.
_NARROW = 16


class Factors(NamedTuple):
    """Weighted singular value decomposition of a table: rows [S, k] times columns [k, width], strongest first."""

    rows: Tensor
    columns: Tensor
    strengths: Tensor  # singular values [k], in units of the answer

    def cut(self, rank: int) -> tuple[Tensor, Tensor]:
        """Cut to rows [S, rank] and columns [rank, width]."""
        return self.rows[:, :rank], self.columns[:rank]


class LayerFactors(NamedTuple):
    """Decompositions of both tables of a layer."""

    inputs: Factors
    errors: Factors


class CutTable(NamedTuple):
    """Layer of the approximation. The 1 that is added to every product stands behind B h, which saves a pass over S."""

    hidden: Tensor | None  # (B, 0) [r + 1, i], or none where nothing is cut
    one: Tensor  # (0, …, 0, 1) [r + 1], or ones [S]
    inputs: Tensor  # (A', 1)ᵀ [r + 1, S], or Aᵀ [i, S]
    errors: Tensor  # −D' [S, s], or −D where s would be o
    outputs: Tensor | None  # C [s, o]


class LastTable(NamedTuple):
    """Layer with one output: ω can be summed before the query is seen, since D (A', 1) has only r + 1 columns."""

    hidden: Tensor  # (B, 0) [r + 1, i]
    one: Tensor  # (0, …, 0, 1) [r + 1]
    products: Tensor  # −D ∘ (A', 1) [S, r + 1]


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
    factors = []
    for table, before, after in zip(tables, hidden, gradients, strict=True):
        size_of_inputs = (table.inputs @ before.root).norm(dim=-1, keepdim=True) + 1
        size_of_errors = (table.errors @ after.root).norm(dim=-1, keepdim=True)
        factors.append(
            LayerFactors(
                _decompose(table.inputs, attention * size_of_errors, before),
                _decompose(table.errors, attention * size_of_inputs, after),
            )
        )
    return tuple(factors)


def full_rank(factors: Sequence[LayerFactors]) -> int:
    """Count the directions of all tables and layers together."""
    return sum(len(side.strengths) for layer in factors for side in layer)


def max_directions(factors: Sequence[LayerFactors], columns: int) -> int:
    """Find the highest rank at which :func:`cut_tables` makes no table of S rows wider than ``columns``, or 0."""
    # Beside its directions a table of inputs has a column of ones, unless it is whole; every table has a direction.
    fitting = [(side.strengths, columns - ones) for layer in factors for side, ones in zip(layer, (1, 0), strict=True)]
    if any(width < 1 for _, width in fitting):
        return 0
    beyond = [float(strengths[width]) for strengths, width in fitting if len(strengths) > width]
    strongest = max(beyond, default=-1.0)
    return sum(int((strengths > strongest).sum()) for strengths, _ in fitting)


def cut_tables(factors: Sequence[LayerFactors], rank: int) -> tuple[CutTable | LastTable, ...]:
    """Cut the tables of all layers to their ``rank`` strongest directions, at least one in each.

    Errors are negative: adding a product is one operator, subtracting it two.
    """
    strengths = torch.cat([side.strengths for layer in factors for side in layer])
    weakest = torch.sort(strengths, descending=True).values[rank - 1]
    cut: list[CutTable | LastTable] = []
    for layer in factors:
        ranks = [max(1, int((side.strengths >= weakest).sum())) for side in layer]
        inputs, hidden, one = _with_one(*layer.inputs.cut(ranks[0]))
        errors, outputs = _joined(*layer.errors.cut(ranks[1]))
        if errors.shape[1] == 1 and outputs is None:
            cut.append(LastTable(hidden, one, -errors * inputs))
        elif ranks[0] == layer.inputs.columns.shape[1] > _NARROW:
            whole, _ = _joined(*layer.inputs.cut(ranks[0]))
            cut.append(CutTable(None, torch.ones_like(whole[:, 0]), whole.mT.contiguous(), -errors, outputs))
        else:
            cut.append(CutTable(hidden, one, inputs.mT.contiguous(), -errors, outputs))
    return tuple(cut)


def _with_one(rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Extend both factors by a 1: (A', 1) [S, r + 1], (B, 0) [r + 1, i], and (0, …, 0, 1)."""
    one = rows.new_zeros(rows.shape[1] + 1)
    one[-1] = 1
    return (
        torch.cat([rows, torch.ones_like(rows[:, :1])], dim=1),
        torch.cat([columns, torch.zeros_like(columns[:1])]),
        one,
    )


def _joined(rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return both factors, or their product where nothing was cut."""
    if len(columns) == columns.shape[1]:
        return (rows @ columns).contiguous(), None
    return rows.contiguous(), columns.contiguous()


def cut_values(queries: Tensor, weights: Tensor, layers: Layers, tables: Sequence[CutTable | LastTable]) -> Tensor:
    """Compute the adapted values [B] or [B, T] with cut tables; :func:`adapted_values` is exact.

    Args:
        queries: standardised rows [B, F].
        weights: ω [B, S].
        layers: weight and bias of every layer.
        tables: of :func:`cut_tables`.
    """
    hidden = queries
    for position, ((weight, bias), table) in enumerate(zip(layers, tables, strict=True)):
        plain = linear(hidden, weight, bias)
        if isinstance(table, LastTable):
            reached = linear(hidden, table.hidden, table.one)
            hidden = plain + ((weights @ table.products) * reached).sum(dim=-1, keepdim=True)
        else:
            if table.hidden is None:
                reached = torch.addmm(table.one, hidden, table.inputs)
            else:
                reached = linear(hidden, table.hidden, table.one) @ table.inputs
            mixed = weights * reached
            if table.outputs is None:
                hidden = torch.addmm(plain, mixed, table.errors)
            else:
                hidden = torch.addmm(plain, mixed @ table.errors, table.outputs)
        if position + 1 < len(layers):
            hidden = torch.relu(hidden)
    return as_values(hidden)


class _Root(NamedTuple):
    """Roots M^½ and M^-½ of a second moment M."""

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
    """Compute roots of H and G of every layer, along the exact adapted pass; G is the mean over targets."""
    hidden, inputs, outputs = queries, [], []
    for position, ((weight, bias), table) in enumerate(zip(layers, tables, strict=True)):
        inputs.append(hidden)
        moved = (weights * (hidden @ table.inputs.mT + 1)) @ table.errors
        # Gradients are asked for of the first output, on which all others depend.
        output = hidden @ weight.mT + bias - moved
        outputs.append(output if position else output.detach().requires_grad_())
        hidden = torch.relu(outputs[-1]) if position + 1 < len(layers) else outputs[-1]
    of_targets = [torch.autograd.grad(answers.sum(), outputs, retain_graph=True) for answers in hidden.unbind(-1)]
    gradients = [torch.cat(of_layer) for of_layer in zip(*of_targets, strict=True)]
    return [_root(item.detach()) for item in inputs], [_root(item) for item in gradients]

"""The inner update of a whole multi-layer perceptron in closed form: every layer adapted, no per-query weights built.

The gradient of the squared error of one dictionary entry with respect to a layer's weight is the outer product of the
error that arrives at the layer and the input it had. Both are functions of the parameters alone, so a query needs only
products with two tables for each layer; they are constants once training is over.

Shapes: B queries, S entries, F features, T targets; layer l maps i_l to o_l, the last one to T. One target has no
axis T: its values are [S], its answers [B].

    query         x   [B, F]       keys    k   [S, F]      values  v [S, T]   attention  ω [B, S]
    layer inputs  A_l [S, i_l]     errors  D_l [S, o_l] = ∂‖f(k_j) − v_j‖² / ∂(output of layer l)
    weight        W_l [o_l, i_l]   bias    b_l [o_l]       step size  α []
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from mntrain.layers.mlp import as_values

Layers = Sequence[tuple[Tensor, Tensor]]


class LayerTable(NamedTuple):
    """Inputs and errors of one layer for every entry."""

    inputs: Tensor  # A_l [S, i_l]
    errors: Tensor  # D_l [S, o_l]


def layer_tables(keys: Tensor, values: Tensor, layers: Layers) -> tuple[LayerTable, ...]:
    """Run all entries forward through the layers, and their squared errors backward.

    Args:
        keys: k [S, F].
        values: v [S], or [S, T] of several targets.
        layers: weight [o_l, i_l] and bias [o_l] of every layer; ReLU after all but the last, whose width is T.
    """
    inputs, hidden = [], keys
    for weight, bias in layers:
        inputs.append(hidden)
        hidden = torch.relu(hidden @ weight.mT + bias)
    last_weight, last_bias = layers[-1]
    wanted = values.unsqueeze(-1) if values.dim() == 1 else values
    errors = 2 * (inputs[-1] @ last_weight.mT + last_bias - wanted)
    tables = [LayerTable(inputs[-1], errors)]
    for (weight, _), after, before in zip(layers[:0:-1], inputs[:0:-1], inputs[-2::-1], strict=True):
        errors = (errors @ weight) * (after > 0)
        tables.append(LayerTable(before, errors))
    return tuple(reversed(tables))


def adapted_values(
    queries: Tensor, weights: Tensor, layers: Layers, tables: Sequence[LayerTable], step_size: Tensor
) -> Tensor:
    """Values [B] or [B, T] of f after one step −α ∇ Σ_j ω_j ‖f(k_j) − v_j‖² of all layers, for every query its own.

    W'_l h + b'_l = W_l h + b_l − α (ω ∘ (h A_lᵀ + 1)) D_l, of cost S (i_l + o_l) for a query.

    Args:
        queries: x [B, F].
        weights: ω [B, S].
        layers: weight and bias of every layer.
        tables: of :func:`layer_tables`.
        step_size: α [].
    """
    hidden = queries
    for position, ((weight, bias), table) in enumerate(zip(layers, tables, strict=True)):
        moved = (weights * (hidden @ table.inputs.mT + 1)) @ (step_size * table.errors)
        hidden = hidden @ weight.mT + bias - moved
        if position + 1 < len(layers):
            hidden = torch.relu(hidden)
    return as_values(hidden)


def weight_change(weights: Tensor, layers: Layers, tables: Sequence[LayerTable], step_size: Tensor) -> Tensor:
    """Relative change ‖φ' − φ‖ / ‖φ‖ [B] of all weights and biases by the inner update.

    The largest intermediate is [B, o_l, i_l].

    Args:
        weights: ω [B, S].
        layers: weight and bias of every layer.
        tables: of :func:`layer_tables`.
        step_size: α [].
    """
    moved, length = weights.new_zeros(len(weights)), weights.new_zeros(())
    for (weight, bias), table in zip(layers, tables, strict=True):
        errors = weights.unsqueeze(1) * table.errors.mT
        moved = moved + (errors @ table.inputs).square().sum(dim=(1, 2)) + errors.sum(dim=-1).square().sum(dim=-1)
        length = length + weight.square().sum() + bias.square().sum()
    return step_size * (moved / length).sqrt()

"""Shapes and first values of the layers of modules.

Shapes: F few classes, M modules (F, or 1 that all share), D inputs, h hidden units, O outputs (K + 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True, kw_only=True)
class ModuleShape:
    """Sizes of the modules.

    Args:
        classes: F.
        inputs: D.
        hidden: h.
        outputs: O.
        shared: one module for all classes, instead of one each.
    """

    classes: int
    inputs: int
    hidden: int
    outputs: int
    shared: bool

    @property
    def modules(self) -> int:
        """M."""
        return 1 if self.shared else self.classes


def fill_first_layer(weight: Tensor, bias: Tensor, generator: torch.Generator) -> None:
    """Draw weight [h, D] and bias [h] of a first layer in place, as PyTorch's linear layers start."""
    bound = 1 / math.sqrt(weight.shape[1])
    weight.uniform_(-bound, bound, generator=generator)
    bias.uniform_(-bound, bound, generator=generator)


class SecondLayers(nn.Module):
    """Second layers of all modules, [F, h] → [F, O].

    Args:
        shape: sizes.
        start: outputs [O] of all modules at the start, where weights are 0; None draws weights and biases as PyTorch's
            linear layers do.
        generator: source of draws.
        dtype: of the parameters.
    """

    def __init__(
        self, shape: ModuleShape, start: Tensor | None, generator: torch.Generator, dtype: torch.dtype
    ) -> None:
        super().__init__()
        weight = torch.zeros(shape.modules, shape.outputs, shape.hidden, dtype=dtype)
        bias = torch.zeros(shape.modules, shape.outputs, dtype=dtype)
        if start is None:
            bound = 1 / math.sqrt(shape.hidden)
            weight.uniform_(-bound, bound, generator=generator)
            bias.uniform_(-bound, bound, generator=generator)
        else:
            bias += start
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(bias)

    def forward(self, hidden: Tensor) -> Tensor:
        """See :class:`torch.nn.Linear`; row f passes through module f."""
        if len(self.weight) == 1:
            return nn.functional.linear(hidden, self.weight[0], self.bias[0])
        return torch.baddbmm(self.bias.unsqueeze(2), self.weight, hidden.unsqueeze(2)).squeeze(2)

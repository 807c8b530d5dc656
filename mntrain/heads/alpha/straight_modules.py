"""Modules as the paper writes them, with all their weights: for optimizers that are not SGD.

Shapes: F few classes, M modules (F, or 1 that all share), D inputs, h hidden units, O outputs (K + 1).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mntrain.heads.alpha.layers import ModuleShape, SecondLayers, fill_first_layer


class StraightModules(nn.Module):
    """Two fully connected layers with a ReLU in between, for each few class or for all (section 3.2, appendix A).

    Args:
        inputs: classifiers of each composition, [F, D].
        shape: sizes.
        start: outputs [O] at the start; None starts as PyTorch's layers.
        generator: source of draws.
    """

    inputs: Tensor

    def __init__(self, inputs: Tensor, shape: ModuleShape, start: Tensor | None, generator: torch.Generator) -> None:
        super().__init__()
        self.register_buffer("inputs", inputs)
        weight = inputs.new_empty(shape.modules, shape.hidden, shape.inputs)
        bias = inputs.new_empty(shape.modules, shape.hidden)
        for place in range(shape.modules):
            fill_first_layer(weight[place], bias[place], generator)
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(bias)
        self.second = SecondLayers(shape, start, generator, inputs.dtype)

    def forward(self) -> Tensor:
        """Compute the outputs of all modules, [F, O]."""
        if len(self.weight) == 1:
            hidden = nn.functional.linear(self.inputs, self.weight[0], self.bias[0])
        else:
            hidden = torch.baddbmm(self.bias.unsqueeze(2), self.weight, self.inputs.unsqueeze(2)).squeeze(2)
        outputs: Tensor = self.second(torch.relu(hidden))
        return outputs

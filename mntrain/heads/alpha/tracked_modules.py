"""Modules under SGD by the outputs of their first layers, which stand in for the layers themselves.

The input v of a module never changes. A step of SGD on a = W v + b moves W by g vᵀ and b by g, where g is the gradient
of a, so a itself moves by g·(‖v‖² + 1). Momentum and weight decay are linear in weights and gradients, so they pass
through v alike. With one module for all classes, the step of class f is Σⱼ (v_f·vⱼ + 1) gⱼ.

Shapes: F few classes, D inputs, h hidden units, O outputs (K + 1).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mntrain.heads.alpha.layers import ModuleShape, SecondLayers, fill_first_layer


class TrackedModules(nn.Module):
    """The same function of SGD's steps as :class:`~mntrain.heads.alpha.straight_modules.StraightModules`.

    It holds [F, h] numbers instead of [F, h, D + 1]. It is exact for SGD with momentum and weight decay, and wrong for
    optimizers that are not linear in the gradient.

    Args:
        inputs: classifiers of each composition, [F, D].
        shape: sizes.
        start: outputs [O] at the start; None starts as PyTorch's layers.
        generator: source of draws, which are those of the straight modules.
    """

    def __init__(self, inputs: Tensor, shape: ModuleShape, start: Tensor | None, generator: torch.Generator) -> None:
        super().__init__()
        # One layer after another in the same memory: all of them, or what their places leave behind, are gigabytes.
        weight, bias = inputs.new_empty(shape.hidden, shape.inputs), inputs.new_empty(shape.hidden)
        if shape.shared:
            fill_first_layer(weight, bias, generator)
            self.hidden = nn.Parameter(nn.functional.linear(inputs, weight, bias))
            gram = inputs @ inputs.T + 1
            self.hidden.register_hook(lambda gradient: gram @ gradient)  # type: ignore[no-untyped-call]
        else:
            hidden = inputs.new_empty(shape.classes, shape.hidden)
            for row, output in zip(inputs, hidden, strict=True):
                fill_first_layer(weight, bias, generator)
                torch.addmv(bias, weight, row, out=output)
            self.hidden = nn.Parameter(hidden)
            scale = inputs.square().sum(dim=1, keepdim=True) + 1
            self.hidden.register_hook(lambda gradient: gradient * scale)  # type: ignore[no-untyped-call]
        self.second = SecondLayers(shape, start, generator, inputs.dtype)

    def forward(self) -> Tensor:
        """Compute the outputs of all modules, [F, O]."""
        outputs: Tensor = self.second(torch.relu(self.hidden))
        return outputs

"""A multi-layer perceptron whose layers can be read, so that they can be adapted.

Shapes: inputs x [B, F], hidden activations [B, units], outputs [B, T].
"""

import itertools

import torch
from torch import Tensor, nn


class Mlp(nn.Module):
    """Hidden layers with ReLU, and a linear output.

    Args:
        features: F.
        layers: hidden layers.
        units: width of each.
        outputs: T, width of the output.
    """

    def __init__(self, features: int, layers: int, units: int, outputs: int) -> None:
        super().__init__()
        self.features = features
        widths = [features, *[units] * layers, outputs]
        self.layers = nn.ModuleList(nn.Linear(before, after) for before, after in itertools.pairwise(widths))

    def parameters_of_layers(self) -> tuple[tuple[Tensor, Tensor], ...]:
        """Weight [out, in] and bias [out] of every layer, the first one first."""
        return tuple((layer.weight, layer.bias) for layer in self.layers if isinstance(layer, nn.Linear))

    def forward(self, inputs: Tensor) -> Tensor:
        """Inputs [B, F] → outputs [B, T]."""
        hidden = inputs
        for layer in self.layers[:-1]:
            hidden = torch.relu(layer(hidden))
        outputs: Tensor = self.layers[-1](hidden)
        return outputs


def as_values(outputs: Tensor) -> Tensor:
    """Drop the last axis of ``outputs`` [B, T] where there is one target: [B] for T = 1, otherwise [B, T]."""
    return outputs.squeeze(-1) if outputs.shape[-1] == 1 else outputs

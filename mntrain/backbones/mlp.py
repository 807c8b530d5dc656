"""A multi-layer perceptron as feature extractor.

Shapes: inputs [B, …], flattened to [B, F] → features [B, units].
"""

import math

from torch import Tensor, nn

from mntrain.layers.mlp import Mlp


class MlpFeatures(nn.Module):
    """Hidden layers with ReLU; the last one has none, so that features are roughly Gaussian like the keys.

    Args:
        shape: of one input.
        layers: hidden layers.
        units: width of each, and of the features.
    """

    def __init__(self, shape: tuple[int, ...], layers: int, units: int) -> None:
        super().__init__()
        self.network = Mlp(math.prod(shape), layers - 1, units, units)
        self.features = units

    def forward(self, inputs: Tensor) -> Tensor:
        """Inputs [B, …] → features [B, units]."""
        features: Tensor = self.network(inputs.flatten(1))
        return features

"""Feature extractors that treat an input as a row of numbers.

Shapes: inputs [B, …] of F numbers each, features [B, d].
"""

from torch import Tensor, nn

from mntrain.layers.mlp import Mlp


class Perceptron(nn.Module):
    """A multi-layer perceptron; the last layer has no ReLU, as the last convolution of :class:`ConvNet4` has none.

    Args:
        inputs: F.
        layers: linear layers.
        units: width of each; d.
    """

    def __init__(self, inputs: int, layers: int, units: int) -> None:
        super().__init__()
        self.network = Mlp(inputs, layers - 1, units, units)
        self.features = units

    def forward(self, inputs: Tensor) -> Tensor:
        """Inputs [B, …] → features [B, d]."""
        features: Tensor = self.network(inputs.flatten(1))
        return features


class Identity(nn.Module):
    """The input as features: the model is a linear classifier, and neighbors lie among the inputs.

    Args:
        inputs: F = d.
    """

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.features = inputs

    def forward(self, inputs: Tensor) -> Tensor:
        """Inputs [B, …] → the same [B, F]."""
        return inputs.flatten(1)

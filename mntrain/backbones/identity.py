"""The input itself as feature: what a linear classifier stands on.

Shapes: inputs [B, …] → features [B, F], all values of an input.
"""

import math

from torch import Tensor, nn


class Identity(nn.Module):
    """Inputs, flattened.

    Args:
        shape: of one input.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.features = math.prod(shape)

    def forward(self, inputs: Tensor) -> Tensor:
        """Inputs [B, …] → features [B, F]."""
        return inputs.flatten(1)

"""A vanilla network with as many parameters as a dictionary would add (Meta-Neighborhoods, appendix A.3).

Shapes: B batch, d features, C classes, h units. images [B, channels, H, W] → [B, h].
"""

import torch
from torch import Tensor, nn


def units_for(parameters: int, features: int, classes: int) -> int:
    """Choose h such that a layer d → h and the wider head hold about ``parameters`` more than the head on d features.

    h (d + 1) + C (h − d) parameters are added: weights and biases of the layer, and the columns that the head gains.
    A dictionary of S entries holds S (d + C), so that h is about S.
    """
    return max(1, round((parameters + classes * features) / (features + 1 + classes)))


def parameters_of(units: int, features: int, classes: int) -> int:
    """Count the parameters that ``units`` add: the inverse of :func:`units_for`."""
    return units * (features + 1) + classes * (units - features)


class WithExtraLayer(nn.Module):
    """A backbone with one more fully connected layer and its ReLU.

    Args:
        backbone: images → features [B, d].
        features: d.
        units: h.
    """

    def __init__(self, backbone: nn.Module, features: int, units: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.layer = nn.Linear(features, units)
        self.features = units
        nn.init.kaiming_normal_(self.layer.weight, nonlinearity="relu")
        nn.init.zeros_(self.layer.bias)

    def forward(self, images: Tensor) -> Tensor:
        """Images [B, channels, H, W] → units [B, h]."""
        return torch.relu(self.layer(self.backbone(images)))

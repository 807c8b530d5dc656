"""Cosine classifier (Meta-Neighborhoods, section 2.3).

Shapes: features z [B, d], weight w [C, d], logits [B, C].
"""

import torch
from torch import Tensor, nn

from mntrain.layers.unit import unit


class CosineHead(nn.Module):
    """logits_c = τ cos(z, w_c), without bias; τ is one learned scalar.

    Args:
        features: d.
        classes: C.
        scale: initial τ.
    """

    def __init__(self, features: int, classes: int, scale: float = 10.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(classes, features))
        self.scale = nn.Parameter(torch.tensor(float(scale)))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, features: Tensor) -> Tensor:
        """Features [B, d] → logits [B, C]."""
        return self.scale * (unit(features) @ unit(self.weight).mT)

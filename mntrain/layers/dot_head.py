"""Dot-product classifier with bias.

Shapes: features z [B, d], weight φ = [w, b] [C, d+1], logits [B, C].
"""

import torch
from torch import Tensor, nn


class DotHead(nn.Module):
    """logits_c = z · w_c + b_c; weights and bias are kept in one matrix, the bias as the last column.

    Args:
        features: d.
        classes: C.
    """

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(classes, features + 1))
        nn.init.xavier_uniform_(self.weight.data[:, :-1])

    def forward(self, features: Tensor) -> Tensor:
        """Features [B, d] → logits [B, C]."""
        return torch.addmm(self.weight[:, -1], features, self.weight[:, :-1].mT)

"""Classifiers that stand on a backbone: cosine or dot product (Meta-Neighborhoods, section 2.3).

Shapes: features z [B, d], logits [B, C]; weight w [C, d] of the cosine head, φ = [w, b] [C, d+1] of the dot head.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from mntrain.layers.attention import unit

HeadKind = Literal["cosine", "dot"]
HEAD_KINDS = ("cosine", "dot")


class CosineHead(nn.Module):
    """Compute logits_c = τ cos(z, w_c), without bias; τ is one learned scalar.

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


class DotHead(nn.Module):
    """Compute logits_c = z · w_c + b_c, with weights and bias in one matrix, the bias as the last column.

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


Head = CosineHead | DotHead


def build_head(kind: HeadKind, features: int, classes: int, scale: float) -> Head:
    """Build a head for d ``features`` and C ``classes``; ``scale`` is τ of the cosine head."""
    return CosineHead(features, classes, scale) if kind == "cosine" else DotHead(features, classes)

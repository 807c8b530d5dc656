"""Static form of a cosine head without adaptation.

Shapes: features z [B, d], prototypes ŵ [C, d], logits [B, C].
"""

import torch
from torch import Tensor, nn

from mntrain.layers.cosine_head import CosineHead
from mntrain.layers.unit import unit


class StaticCosineHead(nn.Module):
    """logits = τ ẑ ŵᵀ with ŵ normalised once."""

    prototypes: Tensor  # τ ŵᵀ [d, C]

    def __init__(self, head: CosineHead) -> None:
        super().__init__()
        with torch.no_grad():
            self.register_buffer("prototypes", (head.scale * unit(head.weight)).mT.contiguous())

    def forward(self, features: Tensor) -> Tensor:
        """Features [B, d] → logits [B, C]."""
        return unit(features) @ self.prototypes

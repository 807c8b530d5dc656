"""Static forms of heads that do not adapt.

Shapes: features z [B, d], weight [C, d], logits [B, C].
"""

import torch
from torch import Tensor, nn

from mntrain.layers.attention import unit
from mntrain.layers.heads import CosineHead, DotHead, Head


class StaticCosineHead(nn.Module):
    """Cosine head whose weights are normalised once: logits = τ ẑ ŵᵀ."""

    prototypes: Tensor  # τ ŵᵀ [d, C]

    def __init__(self, head: CosineHead) -> None:
        super().__init__()
        with torch.no_grad():
            self.register_buffer("prototypes", (head.scale * unit(head.weight)).mT.contiguous())

    def forward(self, features: Tensor) -> Tensor:
        """Compute logits [B, C] of features [B, d]."""
        return unit(features) @ self.prototypes


class StaticDotHead(nn.Module):
    """Dot-product head: logits = z wᵀ + b."""

    weight: Tensor  # wᵀ [d, C]
    bias: Tensor  # b [C]

    def __init__(self, head: DotHead) -> None:
        super().__init__()
        with torch.no_grad():
            self.register_buffer("weight", head.weight[:, :-1].mT.contiguous())
            self.register_buffer("bias", head.weight[:, -1].clone())

    def forward(self, features: Tensor) -> Tensor:
        """Compute logits [B, C] of features [B, d]."""
        return features @ self.weight + self.bias


def static_head(head: Head) -> nn.Module:
    """Make the static form of a head."""
    return StaticCosineHead(head) if isinstance(head, CosineHead) else StaticDotHead(head)

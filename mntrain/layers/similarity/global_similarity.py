"""Global neural similarity: every position of a map is mixed with all others (Liu et al. 2019, appendix B).

Shapes: maps x [B, c, H, W] with m = H·W positions, similarity M [m, m] or [B, m, m].
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from mntrain.layers.full_precision import full_precision, widened
from mntrain.layers.similarity.config import GlobalMode

_REDUCTION = 8
"""Channels for one of the two maps whose products are the similarity, as in the authors' code."""


class GlobalSimilarity(nn.Module):
    """Maps x + γ M x, the same for every channel; γ starts at 0, so that the network starts as it would without.

    Static: M is learned, and γ with it. Dynamic: M = G₁(x) G₂(x)ᵀ / m with two convolutions of 1×1 to c/8 channels,
    whose answers have unit length at every position (eq. 10 and 11). Attention: the softmax of its rows in place of the
    division, which is self-attention.

    Args:
        channels: c.
        positions: m.
        mode: static, dynamic or attention.
        generator: that the weights are drawn from.
    """

    without_decay = ("similarity", "gate")
    additions = ("similarity", "gate", "pair")

    def __init__(self, channels: int, positions: int, mode: GlobalMode, generator: torch.Generator) -> None:
        super().__init__()
        self.mode = mode
        self.similarity: nn.Parameter | None = None
        self.gate: nn.Parameter | None = None
        self.pair: nn.Parameter | None = None
        if mode == "static":
            self.similarity = nn.Parameter(torch.zeros(positions, positions))
        else:
            self.gate = nn.Parameter(torch.zeros(()))
            reduced = max(1, channels // _REDUCTION)
            draws = torch.randn(2, reduced, channels, generator=generator)
            self.pair = nn.Parameter(draws * channels**-0.5)

    def forward(self, maps: Tensor) -> Tensor:
        """Maps [B, c, H, W] → mixed maps of the same shape."""
        flat = maps.flatten(2)  # [B, c, m]
        mixed = (flat @ self.mixing(maps).mT).view_as(maps)
        return maps + (mixed if self.gate is None else self.gate * mixed)

    def mixing(self, maps: Tensor) -> Tensor:
        """Maps [B, c, H, W] → M [m, m], or of every image [B, m, m]; row p says what position p takes of each."""
        if self.similarity is not None:
            return self.similarity
        assert self.pair is not None
        # Eight bits of mantissa are too few for lengths, and 1e-12, which guards their division, is 0 in float16.
        with full_precision(maps):
            flat = widened(maps).flatten(2)
            first, second = (normalize(part.to(flat.dtype) @ flat, dim=1) for part in self.pair)  # [B, c/8, m]
            similarity = first.mT @ second  # [B, m, m]
            mixing = similarity.softmax(dim=-1) if self.mode == "attention" else similarity / similarity.shape[-1]
        return mixing.to(maps.dtype)

"""Instance-wise FiLM: every normalisation layer adapted to its input (Meta-Neighborhoods, section 2.2, eq. 4).

Shapes: maps a [B, C, H, W], pooled query g [B, C], keys [S_l, C], scales γ and shifts β [S_l, C].
"""

import torch
from torch import Tensor, nn

from mntrain.layers.attention import unit

_KEY_STD = 0.05


class IFiLM(nn.Module):
    """Adapted maps a' = (1 + γ̂) a + β̂, with γ̂ and β̂ looked up by the pooled maps in a small learned dictionary.

    The residual form starts as the identity: γ and β are 0 at first. (The paper writes γ̂ a + β̂; both span the same
    functions.)

    Args:
        channels: C.
        entries: S_l.
        temperature: of the attention, fixed.
        generator: that the keys are drawn from; None for the global one.
    """

    additions = ("keys", "scales", "shifts")
    """What an ordinary network has not."""

    def __init__(
        self,
        channels: int,
        entries: int = 10,
        temperature: float = 0.2,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.keys = nn.Parameter(torch.randn(entries, channels, generator=generator) * _KEY_STD)
        self.scales = nn.Parameter(torch.zeros(entries, channels))
        self.shifts = nn.Parameter(torch.zeros(entries, channels))
        self.temperature = temperature

    def affine(self, pooled: Tensor) -> tuple[Tensor, Tensor]:
        """Pooled maps g [B, C] → factor 1 + γ̂ [B, C] and shift β̂ [B, C]."""
        weights = torch.softmax(unit(pooled) @ unit(self.keys).mT / self.temperature, dim=-1)
        return 1 + weights @ self.scales, weights @ self.shifts

    def forward(self, maps: Tensor) -> Tensor:
        """Normalised maps [B, C, H, W] → adapted maps of the same shape."""
        factor, shift = self.affine(maps.mean(dim=(2, 3)))
        return torch.addcmul(shift[:, :, None, None], maps, factor[:, :, None, None])

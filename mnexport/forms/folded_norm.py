"""Folding of batch normalisation and iFiLM into one affine map for every image and channel.

Shapes: maps x [B, C, H, W], pooled maps [B, C], iFiLM keys [S_l, C], its scales γ and shifts β [S_l, C].

With constant statistics batch normalisation is x g + c, and the attention ω over the S_l entries sums to 1, so that

    (1 + γ̂)(x g + c) + β̂ = x [ω G] + [ω H]      with G = g (1 + γ) and H = c (1 + γ) + β, both [S_l, C];

pooling commutes with the affine map: mean(x g + c) = mean(x) g + c. The maps are read twice and written once.
"""

import torch
from torch import Tensor, nn

from mntrain.layers.attention import unit
from mntrain.layers.ifilm import IFiLM


class FoldedNorm(nn.Module):
    """Batch normalisation and iFiLM in evaluation, as one layer.

    Args:
        norm: batch normalisation.
        ifilm: layer that follows it.
    """

    stays_in_float32 = True
    """Attribute of layers whose parameters a backbone in 16 bits leaves in float32."""

    scale: Tensor  # g [C]
    shift: Tensor  # c [C]
    keys: Tensor  # k̂ᵀ / T [C, S_l]
    affine: Tensor  # G and H side by side [S_l, 2C]

    def __init__(self, norm: nn.BatchNorm2d, ifilm: IFiLM) -> None:
        super().__init__()
        assert norm.running_mean is not None
        assert norm.running_var is not None
        with torch.no_grad():
            scale = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
            shift = norm.bias - norm.running_mean * scale
            self.register_buffer("scale", scale)
            self.register_buffer("shift", shift)
            self.register_buffer("keys", (unit(ifilm.keys) / ifilm.temperature).mT.contiguous())
            factors = 1 + ifilm.scales
            self.register_buffer("affine", torch.cat([scale * factors, shift * factors + ifilm.shifts], dim=1))

    def forward(self, maps: Tensor) -> Tensor:
        """Normalise and adapt maps [B, C, H, W]."""
        pooled = torch.addcmul(self.shift, maps.to(self.scale.dtype).mean(dim=(2, 3)), self.scale)
        weights = torch.softmax(unit(pooled) @ self.keys, dim=-1)
        # One node in the graph, where two unsqueezings would be two.
        channels = len(self.scale)
        affine = (weights @ self.affine).to(maps.dtype).reshape(-1, 2 * channels, 1, 1)
        if maps.dtype == torch.bfloat16:  # ONNX chunks no bfloat16; elsewhere two slices are a node more
            factor, shift = affine[:, :channels], affine[:, channels:]
        else:
            factor, shift = affine.chunk(2, dim=1)
        return torch.addcmul(shift, maps, factor)

"""Way of stored pixels to the input of a frozen network, as a module that is exported with it.

Shapes: B batch, C channels, H height, W width of stored images, H' and W' of the network's input.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from mntrain.data.preprocessing import Preprocessing, PreprocessingConfig
from mntrain.networks.record import PixelRule

OFF_TIES = 1 / 1024
"""Added to pixels before they are rounded to bytes: interpolation gives halves, which float32 has on either side."""


class NetworkInput(nn.Module):
    """Normalises pixels, resizes them by bilinear interpolation, and lays them out as the network takes them.

    Normalisation is affine and interpolation an average of weights that sum to 1, so their order does not matter.

    Args:
        rule: what the network takes.
    """

    def __init__(self, rule: PixelRule) -> None:
        super().__init__()
        self.rule = rule
        self.normalize = Preprocessing(PreprocessingConfig(mean=rule.mean, std=rule.std))

    def forward(self, images: Tensor) -> Tensor:
        """Images [B, C, H, W], uint8 or float32 in 0..1 → float32 [B, C, H', W'] or [B, H', W', C]."""
        inputs: Tensor = self.normalize(images)
        if self.rule.resize is not None:
            inputs = F.interpolate(inputs, size=self.rule.resize, mode="bilinear", align_corners=False)
        if self.rule.reverse_channels:
            inputs = inputs.flip(1)
        return inputs.permute(0, 2, 3, 1).contiguous() if self.rule.layout == "NHWC" else inputs

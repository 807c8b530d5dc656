"""Mixed precision: a backbone in 16-bit floats, with everything that adapts in 32 bits.

Shapes: images [B, channels, H, W], features [B, d] float32.

Norms, softmax and the gradient step are computed in float32: a sum of squares overflows float16 once a norm reaches
256, and the 1e-12 that guards a division is 0 in it. So are pooling and lookup of iFiLM; only its affine map is applied
in 16 bits.
"""

import copy
from typing import cast

import torch
from torch import Tensor, nn

from mnexport.forms.base import DeployedClassifier
from mnexport.forms.explained import ExplainedClassifier


class LoweredBackbone(nn.Module):
    """Backbone that is computed in 16 bits, with inputs and features in float32.

    Layers with the attribute ``stays_in_float32`` keep their parameters in float32.

    Args:
        backbone: with folded normalisation layers; copied.
        dtype: float16 or bfloat16.
    """

    def __init__(self, backbone: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.backbone = copy.deepcopy(backbone).to(dtype)
        for name, layer in backbone.named_modules():
            if getattr(layer, "stays_in_float32", False):
                # Copied from the original: rounding to 16 bits and back would not restore them.
                self.backbone.get_submodule(name).load_state_dict(layer.state_dict(), assign=True)
        self.dtype = dtype

    def forward(self, images: Tensor) -> Tensor:
        """Compute features [B, d] of images [B, channels, H, W]."""
        features: Tensor = self.backbone(images.to(self.dtype))
        return features.float()


def with_lowered_backbone(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Copy a static classifier and lower its backbone to 16 bits.

    Args:
        module: a classifier, explained or not.
        dtype: float16 or bfloat16.
    """
    lowered = copy.deepcopy(module)
    deployed = cast("DeployedClassifier", lowered.deployed if isinstance(lowered, ExplainedClassifier) else lowered)
    deployed.backbone = LoweredBackbone(deployed.backbone, dtype)
    return lowered.eval().requires_grad_(False)

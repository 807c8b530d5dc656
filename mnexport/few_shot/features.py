"""The part of a few-shot graph that looks at one image: preprocessing and backbone.

Shapes: images [B, channels, H, W], features [B, d].
"""

import copy

from torch import Tensor, nn

from mnexport.forms.layers import static_layers


class DeployedFeatures(nn.Module):
    """Pixels → features, with layers in their static forms; the trained network is copied.

    Args:
        preprocessing: pixels → normalised images.
        backbone: normalised images → features.
    """

    def __init__(self, preprocessing: nn.Module, backbone: nn.Module) -> None:
        super().__init__()
        self.preprocessing = copy.deepcopy(preprocessing)
        self.backbone = copy.deepcopy(backbone)
        static_layers(self.backbone)
        self.eval().requires_grad_(False)

    def forward(self, images: Tensor) -> Tensor:
        """Images [B, channels, H, W] → features [B, d]."""
        features: Tensor = self.backbone(self.preprocessing(images))
        return features

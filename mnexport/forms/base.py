"""What a static form is: a module without autograd, without state that changes, without data-dependent control flow.

Shapes: image [B, channels, H, W] uint8 (0..255) or float32 (0..1), features [B, d], logits and probabilities [B, C].
"""

import copy

import torch
from torch import Tensor, nn

from mnexport.forms.merged_norm import merge_norms
from mntrain.data.preprocessing import Preprocessing


class DeployedClassifier(nn.Module):
    """Pixels → logits and probabilities: the graph that is exported.

    The trained model is never changed: preprocessing and backbone are copied, and in the copy every normalisation layer
    with iFiLM becomes one affine map.

    Args:
        preprocessing: pixels → normalised images.
        backbone: normalised images → features.
        classifier: features → logits; the static form of whatever stands on the backbone.
    """

    def __init__(self, preprocessing: Preprocessing, backbone: nn.Module, classifier: nn.Module) -> None:
        super().__init__()
        self.preprocessing = copy.deepcopy(preprocessing)
        self.backbone = copy.deepcopy(backbone)
        merge_norms(self.backbone)
        self.classifier = classifier
        self.eval().requires_grad_(False)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Image [B, channels, H, W] → logits [B, C], probabilities [B, C]."""
        logits: Tensor = self.classifier(self.backbone(self.preprocessing(image)))
        return logits, torch.softmax(logits, dim=-1)

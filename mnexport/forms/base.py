"""Static forms: modules without autograd, without state that changes, without data-dependent control flow.

Shapes: image [B, channels, H, W] uint8 (0..255) or float32 (0..1), features [B, d], logits and probabilities [B, C].
"""

import copy

import torch
from torch import Tensor, nn

from mnexport.forms.layers import static_layers
from mntrain.data.standardization import Standardization


def static_preprocessing(preprocessing: nn.Module) -> nn.Module:
    """Copy a preprocessing; a standardisation that changes no value becomes no operator at all."""
    if isinstance(preprocessing, Standardization) and preprocessing.config.changes_nothing:
        return nn.Identity()
    return copy.deepcopy(preprocessing)


class DeployedClassifier(nn.Module):
    """Classifier of pixels or rows, in the graph that is exported.

    The trained model is never changed: preprocessing and backbone are copied, and layers of the copy get their static
    forms.

    Args:
        preprocessing: pixels → normalised images, or rows → standardised rows.
        backbone: preprocessed inputs → features.
        classifier: features → logits; the static form of the head.
    """

    def __init__(self, preprocessing: nn.Module, backbone: nn.Module, classifier: nn.Module) -> None:
        super().__init__()
        self.preprocessing = static_preprocessing(preprocessing)
        self.backbone = copy.deepcopy(backbone)
        static_layers(self.backbone)
        self.classifier = classifier
        self.eval().requires_grad_(False)

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Classify images [B, channels, H, W] or rows [B, F]: logits [B, C], probabilities [B, C]."""
        logits: Tensor = self.classifier(self.backbone(self.preprocessing(inputs)))
        return logits, torch.softmax(logits, dim=-1)

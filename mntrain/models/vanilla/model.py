"""The vanilla classifier: backbone and head.

Shapes: images [B, channels, H, W], features z [B, d], logits [B, C].
"""

from torch import Tensor, nn

from mntrain.layers.head import Head
from mntrain.layers.precision import full_precision
from mntrain.models.base import Classifier, ParameterGroup, Prediction


class Vanilla(Classifier):
    """Head on features, nothing adapted: the baseline beside every adaptive family."""

    def __init__(self, backbone: nn.Module, head: Head) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head

    def forward(self, images: Tensor) -> Prediction:
        """Normalised images [B, channels, H, W] → logits [B, C]."""
        features: Tensor = self.backbone(images).to(self.head.weight.dtype)
        with full_precision(features):
            return Prediction(logits=self.head(features))

    @property
    def compiled_part(self) -> nn.Module:
        """The backbone."""
        return self.backbone

    def parameter_groups(self) -> list[ParameterGroup]:
        """The backbone with weight decay, the head without."""
        return [
            ParameterGroup(name="backbone", parameters=tuple(self.backbone.parameters()), decay=True),
            ParameterGroup(name="head", parameters=tuple(self.head.parameters()), decay=False),
        ]

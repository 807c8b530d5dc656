"""The vanilla classifier: backbone and head.

Shapes: images [B, channels, H, W], features z [B, d], logits [B, C].
"""

from torch import Tensor, nn

from mntrain.backbones.config import feature_count
from mntrain.layers.full_precision import full_precision
from mntrain.layers.heads import Head, build_head
from mntrain.models.backbone_groups import backbone_groups
from mntrain.models.base import Classifier, ParameterGroup, Prediction
from mntrain.models.family import BuildBackbone
from mntrain.models.vanilla.config import VanillaConfig
from mntrain.models.vanilla.extra_layer import WithExtraLayer, units_for


class Vanilla(Classifier):
    """Head on features, nothing adapted: the baseline beside every adaptive family."""

    def __init__(self, backbone: nn.Module, head: Head) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head

    @classmethod
    def from_config(cls, config: VanillaConfig, build_backbone: BuildBackbone, classes: int) -> "Vanilla":
        """Build an untrained classifier of C ``classes`` on a new backbone, with an extra layer where one is set."""
        backbone = build_backbone()
        features = feature_count(backbone)
        if extra := config.added_parameters(features, classes):
            backbone = WithExtraLayer(backbone, features, units_for(extra, features, classes))
        return cls(backbone, build_head(config.head, feature_count(backbone), classes, config.scale))

    def forward(self, images: Tensor) -> Prediction:
        """Normalised images [B, channels, H, W] → logits [B, C]."""
        features: Tensor = self.backbone(images).to(self.head.weight.dtype)
        with full_precision(features):
            return Prediction(logits=self.head(features))

    @property
    def compiled_part(self) -> nn.Module:
        """The backbone."""
        return self.backbone

    def plain(self) -> "Vanilla":
        """The same backbone and head."""
        return Vanilla(self.backbone, self.head)

    def parameter_groups(self) -> list[ParameterGroup]:
        """The backbone with weight decay, the head without."""
        return [
            *backbone_groups(self.backbone),
            ParameterGroup(name="head", parameters=tuple(self.head.parameters()), decay=False),
        ]

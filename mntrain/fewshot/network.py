"""The network of an artifact, as methods use it: pixels → features, with normalisation as in evaluation.

Shapes: B images, C channels, H height, W width, d features.
"""

import copy
from dataclasses import replace

import torch
from torch import Tensor, nn

from mntrain.artifact import ImageArtifact
from mntrain.backbones.config import feature_count
from mntrain.backbones.plain import PlainNetwork
from mntrain.data.preprocessing import Preprocessing
from mntrain.errors import ConfigError
from mntrain.layers.similarity.conv import SimilarityConv
from mntrain.models.base import Model
from mntrain.models.build import build_model

_AT_A_TIME = 200


class FeatureNetwork:
    """Preprocessing and backbone; normalisation keeps the statistics that it was trained with.

    A method that trains takes a copy, so that methods of one session do not change one another.

    Args:
        preprocessing: pixels → inputs.
        backbone: inputs → features [B, d].
    """

    def __init__(self, preprocessing: Preprocessing, backbone: nn.Module) -> None:
        self.preprocessing = preprocessing
        self.backbone = backbone.eval()
        self._known: tuple[Tensor, Tensor] | None = None

    @classmethod
    def of(cls, artifact: ImageArtifact) -> "FeatureNetwork":
        """Take the backbone of an artifact, whatever its family."""
        return cls(artifact.preprocessing, _backbone(artifact.model))

    @classmethod
    def with_static_similarity(cls, artifact: ImageArtifact) -> "FeatureNetwork":
        """Take the backbone with one similarity M for each layer, M = I where the artifact has none.

        Raises:
            ConfigError: the backbone has no convolutions, or their similarity is of another mode.
        """
        experiment = artifact.config.experiment
        similarity = experiment.backbone.similarity
        if similarity.mode not in ("none", "static") or not experiment.backbone.adaptable:
            reason = f"similarity mode {similarity.mode!r}" if experiment.backbone.adaptable else "no convolutions"
            raise ConfigError(
                f"{artifact.path} has backbone {experiment.backbone.name!r} with {reason}; one similarity a layer is "
                "fine-tuned on a convolutional backbone of mode none or static. Choose the method finetune, or "
                "another artifact."
            )
        backbone = replace(experiment.backbone, similarity=replace(similarity, mode="static"))
        size = artifact.config.input
        with torch.random.fork_rng(devices=[]):
            model = build_model(
                replace(experiment, backbone=backbone),
                (size.channels, size.height, size.width),
                len(artifact.config.labels),
            )
        model.load_state_dict(artifact.model.state_dict(), strict=False)
        return cls(artifact.preprocessing, _backbone(model.eval().requires_grad_(False)))

    @property
    def features(self) -> int:
        """d."""
        return feature_count(self.backbone)

    def copy(self) -> "FeatureNetwork":
        """Copy the network, to train the copy."""
        backbone = copy.deepcopy(self.backbone).requires_grad_()
        return FeatureNetwork(self.preprocessing, backbone)

    def embed(self, images: Tensor) -> Tensor:
        """Images uint8 [B, C, H, W] → features [B, d], differentiable in the backbone."""
        features: Tensor = self.backbone(self.preprocessing(images))
        return features

    def embed_maps(self, images: Tensor) -> Tensor:
        """Images uint8 [B, C, H, W] → maps [B, c, h, w] where the features are maps, else features [B, d, 1, 1]."""
        if isinstance(self.backbone, PlainNetwork):
            maps: Tensor = self.backbone.layers(self.preprocessing(images))
            return maps
        return self.embed(images)[:, :, None, None]

    def stored_features(self, images: Tensor) -> Tensor:
        """Features [N, d] of all images uint8 [N, C, H, W], without gradients; kept until other images come."""
        if self._known is None or self._known[0] is not images:
            with torch.no_grad():
                features = torch.cat([self.embed(part) for part in torch.split(images, _AT_A_TIME)])
            self._known = (images, features)
        return self._known[1]

    def similarities(self) -> dict[str, nn.Parameter]:
        """Similarities M by the names of the backbone's parameters."""
        return {
            f"{name}.similarity": layer.similarity
            for name, layer in self.backbone.named_modules()
            if isinstance(layer, SimilarityConv) and layer.similarity is not None
        }


def _backbone(model: Model) -> nn.Module:
    backbone = model.backbone
    assert isinstance(backbone, nn.Module)
    return backbone

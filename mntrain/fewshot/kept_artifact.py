"""An adapted network as an ordinary artifact of the vanilla family.

Shapes: K support images, W classes, d features.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from mntrain.artifact import ImageArtifact, current_versions, save_artifact
from mntrain.backbones.config import feature_count
from mntrain.config import ExperimentConfig
from mntrain.data.config import DataConfig
from mntrain.errors import ConfigError
from mntrain.fewshot.method import AdaptedClassifier
from mntrain.fewshot.novel_images import known_classes
from mntrain.fewshot.support_images import SupportImages
from mntrain.layers.heads import CosineHead
from mntrain.models.base import Model
from mntrain.models.build import build_model
from mntrain.models.vanilla.config import VanillaConfig
from mntrain.models.vanilla.extra_layer import WithExtraLayer, parameters_of
from mntrain.training.setup import spread

_LONGEST_NAME = 80


@dataclass(frozen=True, kw_only=True, eq=False)
class KeptArtifact:
    """What is saved.

    Args:
        start: artifact that was adapted; size and normalisation of its images stay.
        support: images and classes.
        data: by which the support images were read.
        classifier: that a method has made of them.
        method: its name.
        settings: of the method, by section.
        draw: how the support images were chosen.
    """

    start: ImageArtifact
    support: SupportImages
    data: DataConfig
    classifier: AdaptedClassifier
    method: str
    settings: Mapping[str, Any]
    draw: Mapping[str, Any]

    def experiment(self) -> ExperimentConfig:
        """Describe the network: the backbone of the start, and one of the heads of the vanilla family.

        Raises:
            ConfigError: no setting of the vanilla family describes the network.
        """
        before, network = self.start.config.experiment, self.classifier.network
        similarity = before.backbone.similarity
        if network.similarities():
            similarity = replace(similarity, mode="static")
        return replace(
            before,
            name=f"{before.name[:_LONGEST_NAME]}-{self.method}",
            family="vanilla",
            model=VanillaConfig(
                head="cosine" if isinstance(self.classifier.head, CosineHead) else "dot",
                extra_parameters=self._extra_parameters(),
            ),
            data=self.data,
            backbone=replace(before.backbone, similarity=similarity),
        )

    def model(self) -> Model:
        """Build the network with its weights, in evaluation.

        Raises:
            ConfigError: see :meth:`experiment`.
        """
        size = self.start.config.input
        model = build_model(self.experiment(), (size.channels, size.height, size.width), len(self.support.names))
        backbone: dict[str, Tensor] = self.classifier.network.backbone.state_dict() | dict(self.classifier.changed)
        weights = {f"backbone.{name}": value.detach().clone() for name, value in backbone.items()}
        weights |= {f"head.{name}": value.detach().clone() for name, value in self.classifier.head.state_dict().items()}
        model.load_state_dict(weights)
        return model.eval().requires_grad_(False)

    def save(self, path: Path, model: Model, metrics: dict[str, Any]) -> None:
        """Write the artifact; its samples are support images.

        Args:
            path: folder.
            model: as :meth:`model` has built it.
            metrics: of the support set.

        Raises:
            ArtifactError: the folder cannot be written.
        """
        start, digest = self.start, self.support.sha256
        record = {
            "method": self.method,
            "settings": dict(self.settings),
            "start": {
                "path": str(start.path),
                "name": start.config.experiment.name,
                "family": start.config.family,
                "weights_sha256": start.weights_sha256,
                "classes": sorted(known_classes(start)),
            },
            "support": {"path": str(self.data.path), "images": len(self.support.images), **self.draw},
        }
        config = replace(
            start.config,
            experiment=self.experiment(),
            labels=self.support.names,
            split={"counts": {"support": len(self.support.images)}, "sha256": digest},
            metrics=metrics,
            versions=current_versions(),
            data=None,
            adapted=record,
        )
        samples = self.support.images.select(spread(len(self.support.images)))
        save_artifact(path, config, model.state_dict(), samples)

    def _extra_parameters(self) -> int:
        """Count the parameters that describe an extra layer of as many units for W classes; 0 without such a layer."""
        layer, classes = self.classifier.network.backbone, len(self.support.names)
        if not isinstance(layer, WithExtraLayer):
            return 0
        extra = parameters_of(layer.features, feature_count(layer.backbone), classes)
        if extra < 1:
            raise ConfigError(
                f"{self.start.path} has an extra layer of {layer.features} units, which with {classes} classes saves "
                "parameters instead of adding some; no setting describes that. Adapt to fewer classes, or an artifact "
                "without vanilla.extra_parameters and extra_entries."
            )
        return extra

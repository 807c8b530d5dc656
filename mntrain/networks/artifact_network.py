"""The network of an artifact of this package."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from mntrain.artifact import ImageArtifact, load_artifact
from mntrain.errors import ArtifactError
from mntrain.heads.classifier import LinearClassifier
from mntrain.layers.heads import DotHead
from mntrain.models.base import Model
from mntrain.models.vanilla.model import Vanilla
from mntrain.networks.frozen_network import TorchBody
from mntrain.networks.opened import InputRule, OpenedNetwork
from mntrain.networks.options import NetworkOptions


def open_artifact(options: NetworkOptions) -> OpenedNetwork:
    """Open the backbone of an artifact of images, whatever its family.

    Raises:
        ArtifactError: it is missing or damaged, or takes rows.
        ConfigError: an option for ONNX files is given.
    """
    options.refuse_onnx_options()
    return network_of(load_image_artifact(Path(options.source)))


def load_image_artifact(path: Path) -> ImageArtifact:
    """Load an artifact of images.

    Raises:
        ArtifactError: it is missing or damaged, or takes rows.
    """
    artifact = load_artifact(path)
    if not isinstance(artifact, ImageArtifact):
        made = " (a head on features)" if artifact.config.network is not None else ""
        raise ArtifactError(
            f"{path} holds a model of rows{made}, which has no images to compute features of; give an artifact of "
            "images, hf:NAME or a file.onnx."
        )
    return artifact


def network_of(artifact: ImageArtifact) -> OpenedNetwork:
    """Take the backbone of a loaded artifact; its dot head, before any adaptation, is the classifier."""
    size, backbone = artifact.config.input, artifact.model.backbone
    assert isinstance(backbone, nn.Module)
    return OpenedNetwork(
        kind="artifact",
        name=str(artifact.path.resolve()),
        sha256=artifact.weights_sha256,
        input=InputRule(
            normalization=artifact.config.preprocessing,
            size=(size.height, size.width),
            fit=size.fit or "stretch",
        ),
        body=TorchBody(module=backbone.eval()),
        classifier=_classifier(artifact.model),
        label_names=artifact.config.labels,
    )


def _classifier(model: Model) -> LinearClassifier | None:
    plain = model.plain()
    if not isinstance(plain, Vanilla) or not isinstance(plain.head, DotHead):
        return None
    weight = plain.head.weight.detach().float().numpy()
    return LinearClassifier(weight=weight[:, :-1].copy(), bias=weight[:, -1].copy())

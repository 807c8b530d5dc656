"""Models that are checked: artifacts of mntrain, or models made on the spot.

Shapes: inputs uint8 [N, channels, H, W] or float32 [N, F]; features [S, d].
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from common.calibration import features_of, fill_dictionary
from torch import nn

from mntrain.backbones.config import BackboneConfig, build_backbone
from mntrain.data.preprocessing import Preprocessing, PreprocessingConfig
from mntrain.layers.attention import unit
from mntrain.models.base import Model
from mntrain.models.families import family_named
from mntrain.models.meta_neighborhoods.config import MetaNeighborhoodsConfig
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods

_SAMPLES = 256
_BATCH = 500
_COARSE = 5
_NAME = re.compile(r"(?P<backbone>[a-z0-9]+)-(?P<classes>\d+)-(?P<entries>\d+)")


@dataclass(frozen=True, kw_only=True, eq=False)
class CheckedModel:
    """Trained or calibrated model with inputs to check it on.

    Args:
        name: name of the model.
        origin: description of its origin.
        model: model in eval mode on the CPU.
        preprocessing: module, samples -> inputs of the model.
        samples: inputs of the exported model.
        outputs: names of the outputs of the exported model.
        unit: standard deviation of the target of a regressor, or of each of several; else 1.
        form: static form that is checked.
    """

    name: str
    origin: str
    model: Model
    preprocessing: nn.Module
    samples: np.ndarray
    outputs: tuple[str, ...]
    unit: float | tuple[float, ...]
    form: str

    @property
    def is_classifier(self) -> bool:
        """True for a classifier, False for a regressor."""
        return "logits" in self.outputs


@dataclass(frozen=True, kw_only=True)
class Synthetic:
    """Model that is made without data or training.

    Args:
        name: BACKBONE-CLASSES-ENTRIES, such as convnet4-10-5000.
        size: height and width of the images.
        width: factor on the width of the backbone.

    Raises:
        ValueError: the name is of another form, or asks for fewer entries than classes.
        ConfigError: there is no such backbone, or not in that width.
    """

    name: str
    size: int = 32
    width: float = 1.0

    def __post_init__(self) -> None:
        parts = _NAME.fullmatch(self.name)
        if parts is None or not 2 <= int(parts["classes"]) <= int(parts["entries"]):
            raise ValueError(
                f"{self.name!r} is not BACKBONE-CLASSES-ENTRIES with at least 2 classes and as many entries, such as "
                "convnet4-10-5000"
            )
        BackboneConfig(name=parts["backbone"], width=self.width)  # checks name and width

    def build(self) -> CheckedModel:
        """Make a seeded random backbone, and fill its dictionary.

        Keys are features of smooth random images, values their nearest prototype; normalisation is fitted to some of
        these images. The rank of such a dictionary says nothing about a trained one. So the exact form is taken, whose
        cost does not depend on the entries.
        """
        parts = _NAME.fullmatch(self.name)
        assert parts is not None
        classes, entries = int(parts["classes"]), int(parts["entries"])
        torch.manual_seed(0)
        images = _smooth_images(entries + _SAMPLES, self.size)
        preprocessing = Preprocessing(PreprocessingConfig.from_images(images)).eval()
        make = partial(build_backbone, BackboneConfig(name=parts["backbone"], width=self.width), images.shape[1:])
        settings = MetaNeighborhoodsConfig(entries=entries)
        model = family_named("meta_neighborhoods").build(settings, make, classes)
        assert isinstance(model, MetaNeighborhoods)
        _calibrate(model, preprocessing, images[:entries], classes)
        return CheckedModel(
            name=self.name,
            origin="made on the spot: random backbone, keys are its features of smooth random images",
            model=model.eval().requires_grad_(False),
            preprocessing=preprocessing,
            samples=images[entries:],
            outputs=("logits", "probabilities"),
            unit=1.0,
            form="factored",
        )


def of_artifact(folder: Path) -> CheckedModel:
    """Load an artifact, to be checked in the form that mnexport would choose.

    Raises:
        MnTrainError: the artifact cannot be read.
    """
    from mntrain.artifact import ImageArtifact, TableArtifact, load_artifact

    artifact = load_artifact(folder)
    assert isinstance(artifact, ImageArtifact | TableArtifact)
    regression = isinstance(artifact, TableArtifact) and artifact.config.labels is None
    return CheckedModel(
        name=folder.name,
        origin=f"artifact {folder}",
        model=artifact.model,
        preprocessing=artifact.preprocessing,
        samples=artifact.samples.inputs[:_SAMPLES],
        outputs=("value",) if regression else ("logits", "probabilities"),
        unit=artifact.config.standardization.target_std if isinstance(artifact, TableArtifact) and regression else 1.0,
        form="auto",
    )


def artifact_folders(folder: Path, only: Sequence[str]) -> list[Path]:
    """List the artifacts of a folder by name; all of them, or those in ``only``."""
    folders = sorted(artifact.parent for artifact in folder.glob("*/config.json"))
    return [artifact for artifact in folders if not only or artifact.name in only]


def _smooth_images(count: int, size: int) -> np.ndarray:
    """Make images uint8 [count, 3, size, size] without detail: coarse noise, enlarged."""
    coarse = torch.randn(count, 3, _COARSE, _COARSE)
    fine = nn.functional.interpolate(coarse, size=(size, size), mode="bicubic", align_corners=False)
    return ((fine * 0.25 + 0.5).clamp(0, 1) * 255).to(torch.uint8).numpy()


@torch.no_grad()
def _calibrate(model: MetaNeighborhoods, preprocessing: nn.Module, images: np.ndarray, classes: int) -> None:
    for layer in model.backbone.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.momentum = 1.0  # takes the statistics of the single batch that follows
    model.backbone.train()
    model.backbone(preprocessing(torch.from_numpy(images[:_BATCH])))
    model.backbone.eval()
    keys = features_of(model.backbone, preprocessing, images)
    prototypes = unit(keys[:classes] - keys.mean(dim=0))
    nearest = ((keys - keys.mean(dim=0)) @ prototypes.T).argmax(dim=-1)
    fill_dictionary(model, keys, nearest, prototypes)

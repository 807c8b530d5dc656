"""Heads on the features of a frozen network, filled and not trained, as artifacts that `mnexport` takes.

Shapes: M images uint8 [M, C, H, W], features [M, d], classes int64 [M], weight of a linear head [K, d].
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save
from torch.nn import functional

from common.calibration import fill_dictionary
from mntrain.artifact import current_versions, save_artifact
from mntrain.artifact_config import TableArtifactConfig
from mntrain.backbones.config import BackboneConfig, build_backbone
from mntrain.config import ExperimentConfig
from mntrain.data.config import DataConfig
from mntrain.data.standardization import StandardizationConfig
from mntrain.data.tables import TableSet
from mntrain.layers.heads import HeadKind
from mntrain.models.families import family_named
from mntrain.models.meta_neighborhoods.config import MetaNeighborhoodsConfig
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods
from mntrain.models.vanilla.config import VanillaConfig
from mntrain.networks.frozen_network import FrozenNetwork


@dataclass(frozen=True, kw_only=True, eq=False)
class Samples:
    """Images with classes, and their features.

    Args:
        images: uint8 [M, C, H, W].
        features: float32 [M, d].
        classes: int64 [M].
        labels: name of each class.
    """

    images: np.ndarray[Any, Any]
    features: np.ndarray[Any, Any]
    classes: np.ndarray[Any, Any]
    labels: tuple[str, ...]

    @classmethod
    def of(cls, network: FrozenNetwork, images: np.ndarray[Any, Any], classes: int) -> "Samples":
        """Embed images, and give them classes in turn."""
        parts = [network.embed(images[start : start + 16]) for start in range(0, len(images), 16)]
        labels = tuple(f"class {number}" for number in range(classes))
        return cls(
            images=images, features=np.concatenate(parts), classes=np.arange(len(images)) % classes, labels=labels
        )


def smooth_images(count: int, shape: tuple[int, int, int], seed: int = 0) -> np.ndarray[Any, Any]:
    """Draw images uint8 [M, C, H, W] as smooth as photographs: random pixels of an eighth of the size, enlarged."""
    channels, height, width = shape
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 256, (count, channels, -(-height // 8), -(-width // 8)), np.uint8)
    large = functional.interpolate(torch.from_numpy(coarse).float(), (height, width), mode="bilinear")
    images: np.ndarray[Any, Any] = large.round().to(torch.uint8).numpy()
    return images


def write_linear_head(path: Path, network: FrozenNetwork, samples: Samples, seed: int = 0) -> None:
    """Write a dot head with random weights and a bias."""
    classes, width = len(samples.labels), samples.features.shape[1]
    weight = np.random.default_rng(seed).normal(size=(classes, width + 1)) / np.sqrt(width)
    config = VanillaConfig(head="dot")
    identity = StandardizationConfig.identity(width)
    _save(path, network, samples, ("vanilla", config, identity), {"head.weight": torch.from_numpy(weight).float()})


def write_neighborhood_head(
    path: Path, network: FrozenNetwork, samples: Samples, entries: int, head: HeadKind = "dot"
) -> None:
    """Write a Meta-Neighborhoods head whose entries are features of the images."""
    width, classes = samples.features.shape[1], len(samples.labels)
    rows = TableSet(inputs=samples.features, targets=samples.classes)
    standardization = StandardizationConfig.from_rows(rows)
    config = MetaNeighborhoodsConfig(entries=entries, head=head)
    backbone = partial(build_backbone, BackboneConfig(name="identity"), (width,))
    model = family_named("meta_neighborhoods").build(config, backbone, classes)
    assert isinstance(model, MetaNeighborhoods)
    keys = torch.from_numpy(standardization.inputs(rows.inputs))
    taken = torch.arange(entries) % len(keys)
    # No two keys are equal, or the dictionary has fewer directions than entries.
    noise = 0.1 * torch.randn(entries, width, generator=torch.Generator().manual_seed(0))
    targets = torch.from_numpy(samples.classes)
    weight = torch.randn(model.head.weight.shape, generator=torch.Generator().manual_seed(1)) / width**0.5
    fill_dictionary(model, keys[taken] + noise, targets[taken], weight)
    _save(path, network, samples, ("meta_neighborhoods", config, standardization), model.state_dict())


def _save(
    path: Path,
    network: FrozenNetwork,
    samples: Samples,
    model: tuple[str, VanillaConfig | MetaNeighborhoodsConfig, StandardizationConfig],
    weights: dict[str, torch.Tensor],
) -> None:
    family, settings, standardization = model
    config = TableArtifactConfig(
        experiment=ExperimentConfig(
            name=path.name,
            family=family,
            model=settings,
            seed=0,
            normalization="none" if family == "vanilla" else "per_channel",
            data=DataConfig(source="table", path="features"),
            backbone=BackboneConfig(name="identity"),
        ),
        columns=tuple(f"feature_{place}" for place in range(samples.features.shape[1])),
        targets=("class",),
        labels=samples.labels,
        standardization=standardization,
        split={"counts": {}, "sha256": "0" * 64},
        metrics={},
        versions=current_versions(),
        network=network.record,
        head={"method": family, "settings": {}, "scores": {}},
    )
    rows = TableSet(inputs=samples.features, targets=samples.classes)
    save_artifact(path, config, weights, rows, {"network_images.safetensors": save({"images": samples.images})})

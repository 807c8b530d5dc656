"""Pools of features of images, from a network that was trained on other data.

Shapes: N images, d features.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from heads.pools import Pool
from mntrain.artifact import ImageArtifact, load_artifact
from mntrain.data.config import DataConfig
from mntrain.data.images import ImageSet
from mntrain.data.loading import load_images

_BATCH = 250
_TINY_CLASSES = 20


def image_pool(name: str, data: Path, network: Path, limit: int) -> Pool:
    """Embed a part of a set of images.

    Args:
        name: mnist, pacs or tiny-imagenet.
        data: folder of the sets.
        network: artifact of a classifier of images of 32x32 pixels in color.
        limit: largest number of images.
    """
    artifact = load_artifact(network)
    assert isinstance(artifact, ImageArtifact)
    images, names = _images(name, data, limit)
    pixels = torch.from_numpy(images.images)
    with torch.inference_mode():
        parts = [artifact.model.compiled_part(artifact.preprocessing(part)) for part in torch.split(pixels, _BATCH)]
    return Pool(features=torch.cat(parts).float().numpy(), labels=images.labels, names=names)


def _images(name: str, data: Path, limit: int) -> tuple[ImageSet, tuple[str, ...]]:
    folder = {"mnist": "mnist", "pacs": "pacs-64", "tiny-imagenet": "tiny-imagenet-32-100classes"}[name]
    loaded = load_images(
        DataConfig(
            source="datasets",
            path=str(data / folder),
            image_size=32,
            color="RGB",
            test_split="validation" if name == "tiny-imagenet" else None,
            leaks="allow",
        )
    )
    images, labels = loaded.train.images, loaded.train.labels
    if name == "tiny-imagenet":
        kept = labels < _TINY_CLASSES
        images, labels = images[kept], labels[kept]
    order = np.random.default_rng(0).permutation(len(labels))[:limit]
    return ImageSet(images=images[order], labels=labels[order]), loaded.label_names[: int(labels.max()) + 1]

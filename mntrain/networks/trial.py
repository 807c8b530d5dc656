"""Trial of an opened network on two pictures, before anything is computed with it.

Shapes: B images, d features.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from mntrain.errors import DataError

_SAME = 1e-5
"""Largest difference of two answers to one batch, over the largest feature."""
_SAME_IN_BATCHES = 1e-2
"""Largest difference of answers in batches of one and two; networks in 16 bits come near it."""


def trial_images(shape: tuple[int, int, int]) -> torch.Tensor:
    """Make two different pictures of noise, uint8 [2, channels, height, width]."""
    return torch.from_numpy(np.random.default_rng(0).integers(0, 256, (2, *shape), dtype=np.uint8))


def check_answers(embed: Callable[[torch.Tensor], torch.Tensor], images: torch.Tensor, name: str) -> int:
    """Check that a network gives each image one vector that depends on this image alone; returns d.

    Args:
        embed: images [B, …] → features.
        images: two.
        name: of the network, for messages.

    Raises:
        DataError: features are no vectors, are random, or depend on the other images of a batch.
    """
    features = embed(images)
    width = _width(features, name)
    if not _equal(embed(images), features, _SAME):
        raise DataError(
            f"{name} gives other features when it is asked for the same images again: something inside draws at "
            "random, as ViT-MAE masks patches and as dropout does in training mode. Choose a network whose answers "
            "depend on the image alone, or export it in evaluation mode."
        )
    if not _equal(embed(images[:1]), features[:1], _SAME_IN_BATCHES):
        raise DataError(
            f"{name} gives other features of an image when it comes alone than in a batch of 2: they depend on the "
            "other images, as those of batch normalisation in training mode do. Export it in evaluation mode, or "
            "choose another network."
        )
    return width


def _equal(one: torch.Tensor, other: torch.Tensor, tolerance: float) -> bool:
    if one.shape != other.shape:
        return False
    largest = float(other.nan_to_num(0.0, 0.0, 0.0).abs().max())
    return torch.allclose(one, other, rtol=0.0, atol=tolerance * largest, equal_nan=True)


def _width(features: torch.Tensor, name: str) -> int:
    if features.dim() == 2 and len(features) == 2:
        return int(features.shape[1])
    if len(features) != 2:
        raise DataError(
            f"{name} gives an answer of shape {list(features.shape)} to 2 images; the first axis of its features must "
            "be the images. Name another tensor with --output."
        )
    raise DataError(
        f"{name} gives features of shape {list(features.shape[1:])} for each image; a head takes a vector. Average "
        "them with --pooling mean, or name another tensor with --output."
    )

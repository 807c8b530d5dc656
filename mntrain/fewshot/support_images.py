"""The support set that an artifact is adapted to: all images of new classes, or some of each.

Shapes: N images, K support images, W classes.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mntrain.data.images import ImageSet
from mntrain.data.labels import check_lines, check_names, listing
from mntrain.errors import ConfigError, DataError
from mntrain.fewshot.method import SupportSet
from mntrain.fewshot.novel_images import NovelImages


@dataclass(frozen=True, kw_only=True, eq=False)
class SupportImages:
    """Labelled images.

    Args:
        images: [K, C, H, W], with labels from 0 to W − 1.
        names: of the W classes.
    """

    images: ImageSet
    names: tuple[str, ...]

    @property
    def fewest(self) -> int:
        """Images of the class that has the fewest."""
        return int(np.bincount(self.images.labels).min())

    @property
    def sha256(self) -> str:
        """Digest of images and labels."""
        digest = hashlib.sha256(f"support {list(self.images.images.shape)}\n".encode())
        for values in (self.images.images, self.images.labels.astype("<i8")):
            digest.update(np.ascontiguousarray(values).data)
        return digest.hexdigest()

    def pixels(self) -> Tensor:
        """Share the images uint8 [K, C, H, W] with PyTorch."""
        return torch.from_numpy(self.images.images)

    def prepared(self, prepared: Tensor) -> SupportSet:
        """Make the support set of what a method has prepared [K, …]."""
        return SupportSet(prepared, torch.from_numpy(self.images.labels), len(self.names))


def choose_support(novel: NovelImages, shots: int | None, seed: int) -> SupportImages:
    """Take all images of all classes, or some of each.

    Args:
        novel: images and their classes; classes without images are left out.
        shots: images of each class, drawn without replacement; None takes all.
        seed: of the draw, 0 or above.

    Raises:
        ConfigError: ``shots`` or ``seed`` cannot be.
        DataError: there are fewer than two classes, or one has fewer images than ``shots``.
    """
    if shots is not None and shots < 1:
        raise ConfigError(f"--shots is {shots}; it must be at least 1, or left out for all images.")
    if seed < 0:
        raise ConfigError(f"--seed is {seed}; it must be 0 or above.")
    labels = novel.images.labels
    classes, own = np.unique(labels, return_inverse=True)
    names = tuple(novel.names[label] for label in classes)
    check_names(names)
    check_lines(names)
    if len(classes) < 2:
        raise DataError(f"The images of {novel.path!r} are all of class {names[0]!r}; give at least two classes.")
    places = [np.flatnonzero(labels == label) for label in classes]
    if shots is not None:
        few = [f"{name!r} ({len(found)})" for name, found in zip(names, places, strict=True) if len(found) < shots]
        if few:
            raise DataError(
                f"--shots is {shots}, but there are classes with fewer images: {listing(few)}; choose --shots "
                f"{min(map(len, places))}, or add images."
            )
        generator = np.random.default_rng(seed)
        places = [np.sort(generator.choice(found, shots, replace=False)) for found in places]
    chosen = np.concatenate(places)
    images = ImageSet(images=novel.images.images[chosen], labels=own[chosen].astype(np.int64))
    return SupportImages(images=images, names=names)

"""Labelled images in memory.

Shapes: N images, C channels (1 grey, 3 RGB), H height, W width in pixels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mntrain.data.account import SourceAccount
from mntrain.data.duplicates import Duplicates, example_keys, find_duplicates
from mntrain.data.examples import IndexArray
from mntrain.data.labels import check_lines, check_names
from mntrain.data.split_record import SPLITS, SplitRecord
from mntrain.errors import DataError

ImageArray = NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageSet:
    """Images of one split, uint8 [N, C, H, W], and their ``labels``, int64 [N].

    Both are kept contiguous and writable (copied if need be), so that PyTorch can share their memory.

    Raises:
        DataError: the arrays have another dtype or shape, differ in length, or are empty.
    """

    images: ImageArray
    labels: IndexArray

    def __post_init__(self) -> None:
        if self.images.dtype != np.uint8 or self.images.ndim != 4:
            raise DataError(
                f"Images are {self.images.dtype} of shape {list(self.images.shape)}; "
                "they must be uint8 of shape [images, channels, height, width]."
            )
        if self.labels.dtype != np.int64 or self.labels.shape != self.images.shape[:1]:
            raise DataError(
                f"Labels are {self.labels.dtype} of shape {list(self.labels.shape)}; "
                f"they must be int64 of shape [{len(self.images)}], one for each image."
            )
        if self.images.size == 0:
            raise DataError(
                f"A split has no pixels: its images have shape {list(self.images.shape)}; it needs at least one image."
            )
        for name in ("images", "labels"):
            object.__setattr__(self, name, np.require(getattr(self, name), requirements=("C", "W")))

    def __len__(self) -> int:
        return len(self.images)

    @property
    def inputs(self) -> ImageArray:
        """The images, as a training loop calls them."""
        return self.images

    @property
    def targets(self) -> IndexArray:
        """The labels, as a training loop calls them."""
        return self.labels

    def select(self, indices: IndexArray) -> ImageSet:
        """Copy the images and labels at ``indices`` (int64 [M]), in that order."""
        return ImageSet(images=self.images[indices], labels=self.labels[indices])


@dataclass(frozen=True, kw_only=True, eq=False)
class SourceImages:
    """Images of a source, in the splits that the source itself has."""

    noun: ClassVar[str] = "image"

    splits: Mapping[str, ImageSet]
    """The source's own splits: ``train`` and perhaps ``validation`` and ``test``; or ``all`` alone."""
    label_names: tuple[str, ...]
    """Class names; label i means ``label_names[i]``."""
    account: SourceAccount = field(default_factory=SourceAccount)
    """What the source held, and what became of it."""
    names: Mapping[str, tuple[str, ...]] | None = None
    """Split of the source → file name of each image of the source, where images are files."""
    positions: Mapping[str, IndexArray] = field(default_factory=dict)
    """Split → positions of its images in the source (int64 [N], ascending), where ``data.classes`` leaves some out."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageData:
    """Training, validation and test split of one set; all images have the same [C, H, W].

    Raises:
        DataError: the splits disagree on the image shape, or a label is outside ``label_names``.
    """

    train: ImageSet
    validation: ImageSet
    test: ImageSet
    label_names: tuple[str, ...]
    """Class names; label i means ``label_names[i]``."""
    split: SplitRecord
    account: SourceAccount = field(default_factory=SourceAccount)
    """What the source held, and what became of it."""
    names: Mapping[str, tuple[str, ...]] | None = None
    """Split of the source → file name of each image, where images are files."""

    def __post_init__(self) -> None:
        check_names(self.label_names)
        check_lines(self.label_names)
        for name in SPLITS:
            part = self.part(name)
            if part.images.shape[1:] != self.train.images.shape[1:]:
                raise DataError(
                    f"Images of the {name} split have shape {list(part.images.shape[1:])}, those of the "
                    f"train split {list(self.train.images.shape[1:])}; set data.image_size and data.color to "
                    "make them equal."
                )
            low, high = int(part.labels.min()), int(part.labels.max())
            if low < 0 or high >= self.num_classes:
                raise DataError(
                    f"The {name} split holds label {low if low < 0 else high}, but there are "
                    f"{self.num_classes} classes, so labels must be 0 to {self.num_classes - 1}; correct the "
                    "labels of the data."
                )

    def part(self, name: str) -> ImageSet:
        """Return the split ``name``: ``train``, ``validation``, ``test``, or ``all`` three one after another."""
        parts = {"train": self.train, "validation": self.validation, "test": self.test}
        if name != "all":
            return parts[name]
        return ImageSet(
            images=np.concatenate([part.images for part in parts.values()]),
            labels=np.concatenate([part.labels for part in parts.values()]),
        )

    @cached_property
    def duplicates(self) -> Duplicates:
        """Equal images, found by a digest of their pixels; labels do not matter."""
        keys = {name: example_keys(self.part(name).images) for name in SPLITS}
        return find_duplicates(keys, labels=self.train.labels)

    def place(self, split: str, position: int) -> str:
        """Name the image at ``position`` of ``split``: its file, or its number in the source from 0."""
        return self.split.place(split, position, noun="image", names=self.names)

    @property
    def channels(self) -> int:
        """Channels C of every image: 1 (grey) or 3 (RGB)."""
        return int(self.train.images.shape[1])

    @property
    def height(self) -> int:
        """Height H of every image in pixels."""
        return int(self.train.images.shape[2])

    @property
    def width(self) -> int:
        """Width W of every image in pixels."""
        return int(self.train.images.shape[3])

    @property
    def num_classes(self) -> int:
        """Number of classes; labels run from 0 to num_classes - 1."""
        return len(self.label_names)

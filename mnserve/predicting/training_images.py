"""Training images nearest to each learned neighbor, published with a model.

Shapes: U images, S entries, n nearest images of an entry, C channels, H height and W width in pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnserve.client.images import Pixels, PixelSize
from mnserve.errors import TrainingImagesError

ARRAYS = {"images": ("uint8", 4), "labels": ("int64", 1), "positions": ("int64", 1), "indices": ("int32", 2)} | {
    "entry_labels": ("int64", 1)
}
"""Datatype and number of axes of each array."""
REMEDY = "give the neighbors.npz that was published with the model, or export the model again"


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingImage:
    """An image that the model was trained on.

    Attributes:
        position: Position in the training split, from 0.
        label: Class of the image.
        pixels: Pixels uint8 [H, W, C].
    """

    position: int
    label: str
    pixels: Pixels


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingImages:
    """Images of every entry of a dictionary.

    Attributes:
        file: File of the images, for messages.
        images: uint8 [U, C, H, W].
        labels: int64 [U], the class of each image.
        positions: int64 [U], the position of each image in the training split.
        indices: int32 [S, n], the images of each entry, nearest first.
        entry_labels: int64 [S], the class of each entry.

    Raises:
        TrainingImagesError: An array has another datatype or shape, or contradicts another one.
    """

    file: Path
    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    positions: NDArray[np.int64]
    indices: NDArray[np.int32]
    entry_labels: NDArray[np.int64]

    def __post_init__(self) -> None:
        for name, (datatype, axes) in ARRAYS.items():
            array: NDArray[Any] = getattr(self, name)
            if array.dtype != datatype or array.ndim != axes or array.size == 0:
                raise self.refusal(f"{name} is {array.dtype} {list(array.shape)}, expected {datatype} with {axes} axes")
            if name != "images" and array.min() < 0:
                raise self.refusal(f"{name} has the negative value {array.min()}")
        count = len(self.images)
        if self.images.shape[1] not in (1, 3):
            raise self.refusal(f"its images have {self.images.shape[1]} channels, expected 1 (grey) or 3 (RGB)")
        for name in ("labels", "positions"):
            if len(getattr(self, name)) != count:
                raise self.refusal(f"it has {count} images, but {len(getattr(self, name))} {name}")
        if len(np.unique(self.positions)) != count:
            raise self.refusal("two of its images have the same position in the training split")
        if self.indices.max() >= count:
            raise self.refusal(f"it has {count} images, but an entry has the image {self.indices.max()}")
        if len(self.entry_labels) != len(self.indices):
            raise self.refusal(f"it has images of {len(self.indices)} entries, but {len(self.entry_labels)} classes")

    def check_size(self, size: PixelSize) -> None:
        """Checks that a model takes images of this size.

        Raises:
            TrainingImagesError: The model takes another size, so it was not trained on these images.
        """
        own = PixelSize(channels=self.images.shape[1], height=self.images.shape[2], width=self.images.shape[3])
        sides = ((own.height, size.height), (own.width, size.width))
        if own.channels != size.channels or any(model_side not in (None, side) for side, model_side in sides):
            raise self.refusal(
                f"its images are {own} with {own.channels} channel(s), but the model takes {size} with "
                f"{size.channels}, so it is of another model"
            )

    def of_entry(self, entry: int, entry_label: int, names: Sequence[str]) -> tuple[TrainingImage, ...]:
        """Returns the images of an entry, nearest first.

        Args:
            entry: Number of the entry.
            entry_label: Class of the entry in the answer of the model.
            names: Names of the classes of the model.

        Raises:
            TrainingImagesError: The model has other entries or fewer classes.
        """
        if not 0 <= entry < len(self.indices):
            raise self.refusal(f"it has {len(self.indices)} entries, but the model named the entry {entry}")
        if self.entry_labels[entry] != entry_label:
            raise self.refusal(
                f"it says that entry {entry} is of class {self.entry_labels[entry]}, but the model says class "
                f"{entry_label}, so it is of another model"
            )
        images = []
        for image in self.indices[entry]:
            label = int(self.labels[image])
            if label >= len(names):
                raise self.refusal(f"it has an image of class {label}, but the model has {len(names)} classes")
            pixels = self.images[image].transpose(1, 2, 0)
            images.append(TrainingImage(position=int(self.positions[image]), label=names[label], pixels=pixels))
        return tuple(images)

    def refusal(self, reason: str) -> TrainingImagesError:
        """Returns an error with the reason why these images cannot be used."""
        return TrainingImagesError(f"the training images of {self.file} cannot be used: {reason}; {REMEDY}")

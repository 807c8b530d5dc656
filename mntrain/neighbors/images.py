"""Training images nearest to the entries of a dictionary, each image once.

Shapes: U images, S entries, n nearest images of an entry; [channels, H, W] of an image.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mntrain.data.examples import IndexArray
from mntrain.data.images import ImageArray, ImageSet
from mntrain.errors import DataError

EntryArray = NDArray[np.int32]


@dataclass(frozen=True, kw_only=True, eq=False)
class NeighborImages:
    """Nearest images of every entry.

    Args:
        images: uint8 [U, channels, H, W].
        labels: int64 [U], the class of each image.
        positions: int64 [U], position of each image in the training split; ascending.
        indices: int32 [S, n], the images of each entry as numbers of ``images``, nearest first.

    Raises:
        DataError: the arrays have another dtype or shape, or contradict one another.
    """

    images: ImageArray
    labels: IndexArray
    positions: IndexArray
    indices: EntryArray

    def __post_init__(self) -> None:
        count = len(self.images) if self.images.ndim else 0
        expected = {
            "images": (np.uint8, 4),
            "labels": (np.int64, 1),
            "positions": (np.int64, 1),
            "indices": (np.int32, 2),
        }
        for name, (dtype, axes) in expected.items():
            array = getattr(self, name)
            if array.dtype != dtype or array.ndim != axes or array.size == 0:
                raise DataError(
                    f"{name} are {array.dtype} of shape {list(array.shape)}, expected {np.dtype(dtype)} with {axes} "
                    "axes, none of length 0"
                )
        if len(self.labels) != count or len(self.positions) != count:
            raise DataError(
                f"there are {count} images, but {len(self.labels)} labels and {len(self.positions)} positions"
            )
        if self.indices.min() < 0 or self.indices.max() >= count:
            raise DataError(
                f"indices run from {self.indices.min()} to {self.indices.max()}, but there are {count} images"
            )
        if self.positions[0] < 0 or bool((np.diff(self.positions) <= 0).any()):
            raise DataError("positions do not ascend from 0 or above")

    @classmethod
    def gather(cls, train: ImageSet, nearest: IndexArray) -> "NeighborImages":
        """Gather the images at ``nearest`` int64 [S, n], positions in the training split."""
        positions, indices = np.unique(nearest, return_inverse=True)
        return cls(
            images=train.images[positions],
            labels=train.labels[positions],
            positions=positions,
            indices=indices.reshape(nearest.shape).astype(np.int32),
        )

    @property
    def size(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in (self.images, self.labels, self.positions, self.indices))

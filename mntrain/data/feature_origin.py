"""Origin of rows that are features: the network that they come from, and images to check it by.

Shapes: M samples, C channels, H height, W width, d features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mntrain.data.examples import IndexArray
from mntrain.errors import DataError
from mntrain.networks.record import NetworkRecord


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureSamples:
    """Test images with their features, in one order, by which an export checks the whole way from pixels.

    Args:
        images: uint8 [M, C, H, W].
        labels: int64 [M].
        features: float32 [M, d].

    Raises:
        DataError: the arrays have other dtypes or shapes, or differ in length.
    """

    images: NDArray[np.uint8]
    labels: IndexArray
    features: NDArray[np.float32]

    def __post_init__(self) -> None:
        shapes = f"{list(self.images.shape)}, {list(self.labels.shape)} and {list(self.features.shape)}"
        dtypes = [str(values.dtype) for values in (self.images, self.labels, self.features)]
        if dtypes != ["uint8", "int64", "float32"] or [self.images.ndim, self.features.ndim] != [4, 2]:
            raise DataError(
                f"Samples are {', '.join(dtypes)} of shapes {shapes}; they must be uint8 images, int64 "
                "labels and float32 features."
            )
        if not len(self.labels) or {len(self.images), len(self.features)} != {len(self.labels)}:
            raise DataError(f"Samples have shapes {shapes}; there must be as many images as labels and features.")


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureOrigin:
    """Network that rows come from.

    Args:
        network: the frozen network.
        samples: of the test split; None where there are no images.
        views: rows of each training image, which counts once among the examples of its class.
    """

    network: NetworkRecord
    samples: FeatureSamples | None = None
    views: int = 1

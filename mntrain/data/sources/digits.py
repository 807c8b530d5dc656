"""Digits that come with scikit-learn: the default source, since it needs no files and no network."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

from mntrain.data.account import SourceAccount
from mntrain.data.config import DataConfig
from mntrain.data.images import ImageSet, SourceImages
from mntrain.data.reading.labelled_arrays import LabelledArrays, choose_arrays
from mntrain.data.reading.pixel_account import PixelCensus
from mntrain.data.reading.pixels import from_grey

_LEVELS = 16  # scikit-learn's digits hold counts of 0 to 16 set pixels in each 4x4 block


def load(config: DataConfig) -> SourceImages:
    """Load 1,797 grey images of 8x8 pixels in one split; 0..16 of the source becomes 0..255."""
    bunch = load_digits()
    images = np.rint(bunch.images * (255.0 / _LEVELS)).astype(np.uint8)
    arrays = choose_arrays(
        LabelledArrays(
            pixels={"all": images},
            labels={"all": bunch.target.astype(np.int64)},
            names=tuple(str(name) for name in bunch.target_names),
        ),
        config.class_patterns,
        where="the digits",
    )
    images = arrays.pixels["all"]
    loaded = from_grey(images, color=config.color, size=config.image_size, fit=config.image_fit)
    census = PixelCensus()
    census.add(images.shape[2], images.shape[1], "L", len(images))
    return SourceImages(
        splits={"all": ImageSet(images=loaded, labels=arrays.labels["all"])},
        label_names=arrays.names,
        positions=arrays.positions,
        account=SourceAccount(
            location="scikit-learn",
            layout="the digits that come with scikit-learn",
            splits="drawn from all images",
            ignored=arrays.ignored,
            **census.account(loaded, config),
        ),
    )

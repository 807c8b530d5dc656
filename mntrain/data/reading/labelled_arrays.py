"""Labelled images of a source that holds them as arrays.

Shapes: N images, M of them kept, H height, W width in pixels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mntrain.data.account import Ignored
from mntrain.data.classes.choice import LEFT_OUT, choose_classes, keep_images
from mntrain.data.examples import IndexArray


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelledArrays:
    """Images and labels of each split.

    Args:
        pixels: split → uint8 [N, H, W].
        labels: split → int64 [N].
        names: of the classes.
        positions: split → positions of the images in the source, where some are left out.
        ignored: record of those that are left out.
    """

    pixels: Mapping[str, NDArray[np.uint8]]
    labels: Mapping[str, IndexArray]
    names: tuple[str, ...]
    positions: Mapping[str, IndexArray] = field(default_factory=dict)
    ignored: tuple[Ignored, ...] = ()


def choose_arrays(arrays: LabelledArrays, patterns: Sequence[str] | None, *, where: str) -> LabelledArrays:
    """Keep the images of the classes that ``patterns`` choose, and number those classes anew in their order.

    Args:
        arrays: all images.
        patterns: ``data.classes``; None keeps all.
        where: the data, for messages.

    Raises:
        ConfigError: a pattern matches no class, or fewer than two classes are left.
        DataError: a split keeps no image.
    """
    if patterns is None:
        return arrays
    chosen = choose_classes(arrays.names, patterns, where=where)
    names = tuple(name for name in arrays.names if name in chosen)
    number = np.array([names.index(name) if name in chosen else LEFT_OUT for name in arrays.names], dtype=np.int64)
    labels = {split: number[values] for split, values in arrays.labels.items()}
    kept = keep_images(labels, [name for name in arrays.names if name not in chosen], where=where)
    return LabelledArrays(
        pixels={split: arrays.pixels[split][at] for split, at in kept.positions.items()},
        labels={split: labels[split][at] for split, at in kept.positions.items()},
        names=names,
        positions=kept.positions,
        ignored=kept.ignored,
    )

"""Rows whose class is kept by ``data.classes``; images of the others are never decoded.

Shapes: N images of a split, M of them are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from mntrain.data.account import Ignored
from mntrain.data.classes.choice import keep_images
from mntrain.data.examples import IndexArray
from mntrain.data.image_files.classes import ClassLabels
from mntrain.data.image_files.opened import Place
from mntrain.data.image_files.rows import ImageRows, SomeRows


@dataclass(frozen=True, kw_only=True, eq=False)
class ChosenRows:
    """Rows of each split, and their labels.

    Args:
        splits: rows of each file, in order.
        labels: split → int64 [M].
        positions: split → positions of the rows in the split as it was read; empty where all are kept.
        ignored: record of those that are not.
    """

    splits: Mapping[str, Sequence[ImageRows]]
    labels: Mapping[str, IndexArray]
    positions: Mapping[str, IndexArray] = field(default_factory=dict)
    ignored: tuple[Ignored, ...] = ()


def choose_rows(place: Place, splits: Mapping[str, Sequence[ImageRows]], read: ClassLabels) -> ChosenRows:
    """Keep the rows whose class was not left out when labels were read.

    Raises:
        DataError: a split that is trained on or measured keeps no row.
    """
    if place.config.class_patterns is None:
        return ChosenRows(splits=splits, labels=read.labels)
    kept = keep_images(read.labels, read.left_out, where=place.where, trained=place.trained)
    return ChosenRows(
        splits={split: _rows_at(splits[split], at) for split, at in kept.positions.items()},
        labels={split: read.labels[split][at] for split, at in kept.positions.items()},
        positions=kept.positions,
        ignored=kept.ignored,
    )


def _rows_at(parts: Sequence[ImageRows], positions: IndexArray) -> list[ImageRows]:
    """Rows at ``positions`` (int64 [M], ascending) of files one after another; files without any are left out."""
    found: list[ImageRows] = []
    start = 0
    for part in parts:
        low, high = np.searchsorted(positions, [start, start + len(part)])
        if high > low:
            found.append(SomeRows(whole=part, positions=positions[low:high] - start))
        start += len(part)
    return found

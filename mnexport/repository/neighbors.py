"""``neighbors.npz``: the training images nearest to each entry, beside a model that tells its neighbors.

Plain NumPy arrays, compressed, nothing pickled, so that a client needs neither the artifact nor PyTorch:

::

    images        uint8 [U, channels, H, W]    each image once
    labels        int64 [U]                    its class
    positions     int64 [U]                    where it stands in the training split
    indices       int32 [S, n]                 the images of each entry, nearest first
    entry_labels  int64 [S]                    its class: a client tells the file of another model by it

Shapes: U images, S entries, n nearest images of an entry.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mnexport.options import ExportOptions
from mnexport.repository.layout import NEIGHBORS_NAME
from mntrain.artifact import Artifact, ImageArtifact
from mntrain.models.neighbors import NeighborClassifier
from mntrain.neighbors.file import read_neighbors
from mntrain.neighbors.images import NeighborImages

MOST_BYTES = 64 * 1024 * 1024
"""Largest size of images, labels, positions and indices before compression: clients hold them in memory."""


@dataclass(frozen=True, kw_only=True)
class NeighborsReport:
    """What became of the training images of an artifact.

    Args:
        entries: S.
        images_per_entry: n.
        images: U.
        size: bytes of all arrays.
        left_out: why they were not published; None where they were.
    """

    entries: int
    images_per_entry: int
    images: int
    size: int
    left_out: str | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for ``export.json``."""
        return asdict(self)

    def describe(self) -> str:
        """One line for the command line."""
        if self.left_out is not None:
            return f"no {NEIGHBORS_NAME}: {self.left_out}"
        return (
            f"{NEIGHBORS_NAME}: {self.images_per_entry} training images for each of {self.entries} entries, "
            f"{self.images} different ones, {self.size / 1e6:.2f} MB before compression"
        )


def carried_neighbors(options: ExportOptions, artifact: Artifact) -> NeighborImages | None:
    """The training images that an artifact carries, where explanations are asked for.

    Raises:
        ArtifactError: the file that holds them is damaged, or is of another model.
    """
    if options.explain == 0 or not isinstance(artifact, ImageArtifact):
        return None
    return read_neighbors(artifact)


def write_neighbors(carried: NeighborImages | None, artifact: Artifact, folder: Path) -> NeighborsReport | None:
    """Put the file into ``folder``, unless it is too large; None where the artifact carries none."""
    if carried is None:
        return None
    entries, count = carried.indices.shape
    reason = None
    if carried.size > MOST_BYTES:
        reason = (
            f"the training images take {carried.size:,} bytes, at most {MOST_BYTES:,} are published; store fewer with "
            f"`mntrain neighbors {artifact.path} --images N`"
        )
    else:
        assert isinstance(artifact.model, NeighborClassifier)  # nothing else carries any
        np.savez_compressed(
            folder / NEIGHBORS_NAME,
            images=carried.images,
            labels=carried.labels,
            positions=carried.positions,
            indices=carried.indices,
            entry_labels=artifact.model.entry_labels().numpy(),
        )
    return NeighborsReport(
        entries=entries,
        images_per_entry=count,
        images=len(carried.images),
        size=carried.size,
        left_out=reason,
    )

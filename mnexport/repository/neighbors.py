"""``neighbors.npz``: training images nearest to each entry, beside a model that tells its neighbors.

The file has plain NumPy arrays, compressed and without pickles. Clients need neither the artifact nor PyTorch:

::

    images        uint8 [U, channels, H, W]    each image once
    labels        int64 [U]                    its class
    positions     int64 [U]                    its position in the training split
    indices       int32 [S, n]                 the images of each entry, nearest first
    entry_labels  int64 [S]                    its class: a client tells the file of another model by it

Shapes: U images, S entries, n nearest images of an entry.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mnexport.repository.layout import NEIGHBORS_NAME
from mntrain.artifact import Artifact, ImageArtifact
from mntrain.models.neighbors import NeighborClassifier
from mntrain.neighbors.file import read_neighbors
from mntrain.neighbors.images import NeighborImages

MAX_BYTES = 64 * 1024 * 1024
"""Largest size of images, labels, positions and indices before compression: clients hold them in memory."""


@dataclass(frozen=True, kw_only=True)
class NeighborsReport:
    """Training images of an artifact, published or left out.

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
        """Return plain values for ``export.json``."""
        return asdict(self)

    def describe(self) -> str:
        """Return one line for the command line."""
        if self.left_out is not None:
            return f"no {NEIGHBORS_NAME}: {self.left_out}"
        return (
            f"{NEIGHBORS_NAME}: {self.images_per_entry} training images for each of {self.entries} entries, "
            f"{self.images} different ones, {self.size / 1e6:.2f} MB before compression"
        )


def stored_neighbors(artifact: Artifact) -> NeighborImages | None:
    """Read the training images that an artifact carries; None where it carries none.

    Raises:
        ArtifactError: the file that holds them is damaged, or is of another model.
    """
    return read_neighbors(artifact) if isinstance(artifact, ImageArtifact) else None


def write_neighbors(stored: NeighborImages | None, artifact: Artifact, folder: Path) -> NeighborsReport | None:
    """Write ``neighbors.npz`` into ``folder``, unless it is too large; None where the artifact carries no images."""
    if stored is None:
        return None
    entries, count = stored.indices.shape
    reason = None
    if stored.size > MAX_BYTES:
        reason = (
            f"the training images take {stored.size:,} bytes, at most {MAX_BYTES:,} are published; store fewer with "
            f"`mntrain neighbors {artifact.path} --images N`"
        )
    else:
        assert isinstance(artifact.model, NeighborClassifier)  # no other family carries neighbors
        np.savez_compressed(
            folder / NEIGHBORS_NAME,
            images=stored.images,
            labels=stored.labels,
            positions=stored.positions,
            indices=stored.indices,
            entry_labels=artifact.model.entry_labels().numpy(),
        )
    return NeighborsReport(
        entries=entries,
        images_per_entry=count,
        images=len(stored.images),
        size=stored.size,
        left_out=reason,
    )

"""Training images nearest to each entry, from an artifact and its data into the artifact.

Shapes: S entries, n nearest images of an entry.
"""

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from mntrain.acting.labels import Consistency, entry_consistency
from mntrain.artifact import ImageArtifact, load_artifact, read_config
from mntrain.artifact_config import ImageArtifactConfig
from mntrain.data.examples import IndexArray
from mntrain.data.images import ImageArray, ImageSet
from mntrain.errors import ArtifactError, ConfigError
from mntrain.models.nearest import nearest_positions
from mntrain.models.neighbors import NeighborClassifier
from mntrain.neighbors.file import NAME, write_neighbors
from mntrain.neighbors.images import NeighborImages
from mntrain.training.artifact_data import load_split

_MOST = 20


@dataclass(frozen=True, kw_only=True)
class NeighborOptions:
    """Options of ``mntrain neighbors``.

    Args:
        artifact: folder of a Meta-Neighborhoods classifier of images.
        images: n, for each entry.
        data_path: new place of the data, if it has moved.
        quiet: no progress.

    Raises:
        ConfigError: the number of images is out of range.
    """

    artifact: Path
    images: int = 3
    data_path: str | None = None
    quiet: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.images <= _MOST:
            raise ConfigError(f"--images is {self.images}; it must be from 1 to {_MOST} (3 is the default).")


@dataclass(frozen=True, kw_only=True)
class NeighborReport:
    """Report on an added file.

    Args:
        file: path of the file.
        entries: S.
        images: n.
        looked_at: images of the training split.
        stored: different images in the file.
        size: of the file in bytes.
        share_of_entry_class: share of the S·n images that are of their entry's likeliest class.
        consistency: the same share against chance.
    """

    file: Path
    entries: int
    images: int
    looked_at: int
    stored: int
    size: int
    share_of_entry_class: float
    consistency: Consistency

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for ``--json``."""
        return dict(vars(self)) | {"file": str(self.file), "consistency": asdict(self.consistency)}


def add_neighbors(options: NeighborOptions) -> NeighborReport:
    """Find the nearest training images of every entry, and store them in the artifact.

    Raises:
        ArtifactError: the artifact cannot be read or written, or has no neighbors among images.
        DataError: the data is missing, or has changed.
        ConfigError: the training split has fewer images than asked for.
    """
    artifact, model = _load(options.artifact)
    train = load_split(artifact.config, "train", options.data_path)
    assert isinstance(train, ImageSet)  # the digest says so
    if options.images > len(train):
        raise ConfigError(f"--images is {options.images}, but the training split has {len(train)} images.")
    nearest = NeighborImages.gather(train, _search(artifact, model, train.images, options))
    file = write_neighbors(artifact, nearest)
    classes = model.entry_labels().numpy()
    found = nearest.labels[nearest.indices]
    consistency = entry_consistency(classes, found, examples=len(train))
    return NeighborReport(
        file=file,
        entries=len(nearest.indices),
        images=options.images,
        looked_at=len(train),
        stored=len(nearest.images),
        size=file.stat().st_size,
        share_of_entry_class=consistency.share,
        consistency=consistency,
    )


def _load(path: Path) -> tuple[ImageArtifact, NeighborClassifier]:
    """Load the artifact, and refuse what cannot work before minutes of search."""
    config = read_config(path)
    if not isinstance(config, ImageArtifactConfig):
        raise ArtifactError(f"{path} holds a model of rows, which have no pictures; give an artifact of images.")
    artifact = load_artifact(path)
    assert isinstance(artifact, ImageArtifact)
    if not isinstance(artifact.model, NeighborClassifier):
        raise ArtifactError(
            f"{path} is of family {config.family}, which looks no neighbors up; give an artifact of family "
            "meta_neighborhoods."
        )
    if not os.access(path, os.W_OK | os.X_OK):
        raise ArtifactError(f"{path / NAME} cannot be written: the folder takes no files. Copy the artifact elsewhere.")
    return artifact, artifact.model


def _search(
    artifact: ImageArtifact, model: NeighborClassifier, images: ImageArray, options: NeighborOptions
) -> IndexArray:
    console = Console(stderr=True, quiet=options.quiet)
    if not console.is_terminal:
        console.print(f"looking at {len(images)} training images", highlight=False)
    with Progress(
        TextColumn("training images"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=options.quiet or not console.is_terminal,
    ) as bar:
        task = bar.add_task("", total=len(images))
        return nearest_positions(
            model, artifact.preprocessing, images, options.images, lambda done: bar.advance(task, done)
        )

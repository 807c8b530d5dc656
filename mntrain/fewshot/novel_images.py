"""Images of classes that an artifact was not trained on.

Shapes: N images, C channels, H height, W width.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mntrain.artifact import ImageArtifact
from mntrain.data.config import DataConfig
from mntrain.data.images import ImageSet
from mntrain.data.labels import listing
from mntrain.data.loading import load_unseen_images
from mntrain.errors import ConfigError
from mntrain.evaluation.new_data import check_shape
from mntrain.evaluation.reading import reading_config


@dataclass(frozen=True, kw_only=True, eq=False)
class NovelImages:
    """Images to draw episodes from.

    Args:
        images: of all splits there.
        names: class i is ``names[i]``; some may have no image.
        path: of the data.
        config: by which they were read.
        trained_classes: names of classes with images that the artifact was trained on, too.
    """

    images: ImageSet
    names: tuple[str, ...]
    path: str
    config: DataConfig
    trained_classes: tuple[str, ...]

    @property
    def classes(self) -> int:
        """Number of classes with images."""
        return len(np.unique(self.images.labels))

    @property
    def notes(self) -> tuple[str, ...]:
        """Say which classes are not new."""
        if not self.trained_classes:
            return ()
        shared = listing([repr(name) for name in self.trained_classes])
        return (
            f"{len(self.trained_classes)} of {self.classes} classes have names that the artifact was trained on "
            f"({shared}): accuracy on them is not that on new classes",
        )


def load_novel_images(artifact: ImageArtifact, given: Mapping[str, Any]) -> NovelImages:
    """Load everything at ``data.path`` by the rules of the artifact.

    Args:
        artifact: whose inputs the images must be.
        given: fields of ``DataConfig``, ``path`` among them.

    Raises:
        ConfigError: there is no path, or a field has no use.
        DataError: the images cannot be read, or have another size.
    """
    if given.get("path") is None:
        raise ConfigError(
            "--data.path is not given; it must name images of classes that the artifact was not trained on, such as "
            "--data.path test.parquet."
        )
    config = reading_config(artifact.config, given)
    source = load_unseen_images(config)
    check_shape(source, artifact, f"'{config.path}'")
    parts = list(source.splits.values())
    images = ImageSet(
        images=np.concatenate([part.images for part in parts]), labels=np.concatenate([part.labels for part in parts])
    )
    present = [source.label_names[label] for label in np.unique(images.labels)]
    known = known_classes(artifact)
    return NovelImages(
        images=images,
        names=source.label_names,
        path=str(config.path),
        config=config,
        trained_classes=tuple(name for name in present if name in known),
    )


def known_classes(artifact: ImageArtifact) -> set[str]:
    """List the names of the classes with training images: a class of the data may have none.

    Artifacts of earlier versions have no summary; all their classes count then. What an adapted artifact was adapted
    from counts, too.
    """
    if artifact.config.adapted is not None:
        return {*artifact.config.labels, *artifact.config.adapted["start"]["classes"]}
    summary = artifact.config.data or {}
    counts = summary.get("splits", {}).get("train", {}).get("classes")
    if not counts:
        return set(artifact.config.labels)
    return {name for name, count in counts.items() if count}

"""The splits an artifact was trained and tested on, found again."""

import dataclasses

from mntrain.artifact import ArtifactConfig
from mntrain.data.images import ImageData, ImageSet
from mntrain.data.sources import load_images
from mntrain.errors import DataError


def load_split(config: ArtifactConfig, split: str, path: str | None = None) -> ImageSet:
    """The images of one split of the data that an artifact was trained on.

    Args:
        config: of the artifact.
        split: train, validation or test.
        path: where the data lies now, if it has moved.

    Raises:
        DataError: the data is not there, or is not the data of the run (its digest differs).
    """
    return load_data(config, path).part(split)


def load_data(config: ArtifactConfig, path: str | None = None) -> ImageData:
    """All splits of the data that an artifact was trained on.

    Args, Raises: as :func:`load_split`.
    """
    source = config.experiment.data
    if path is not None:
        source = dataclasses.replace(source, path=path)
    data = load_images(source)
    expected = config.split["sha256"]
    if data.split.sha256 != expected:
        raise DataError(
            f"The images of {source.path or source.source} are not those the artifact was trained with: their digest "
            f"is {data.split.sha256[:12]}…, the artifact's {expected[:12]}…. Give the right folder with --data-path."
        )
    return data

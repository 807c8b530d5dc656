"""Training images of neighbors from the repository, read once and kept for the next predictions."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Final

from mnserve.errors import TrainingImagesError
from mnserve.models.catalogue import Endpoint
from mnserve.models.opened_model import NEIGHBORS_NAME
from mnserve.predicting.training_images import REMEDY, TrainingImages
from mnserve.predicting.training_images_file import read_training_images
from mnserve.repository.model_files import verified_path
from mnserve.repository.reader import read_model

_KEPT: Final = 2
"""Models whose images stay in memory."""
_Stamp = tuple[Path, int, int]
"""File, time of its last change, and size."""


class PublishedImages:
    """Finds the training images that were published with a version of a model.

    Args:
        repository: Folder of the models.
    """

    def __init__(self, repository: Path) -> None:
        self._repository = repository
        self._kept: OrderedDict[_Stamp, TrainingImages] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, endpoint: Endpoint) -> TrainingImages | None:
        """Returns the images of a version; None for a model that was published without any.

        Raises:
            RepositoryError: The version is not in the repository any more.
            TrainingImagesError: The file was changed since it was published, or is damaged.
        """
        files = read_model(self._repository, endpoint.name, endpoint.version)
        path = verified_path(files, NEIGHBORS_NAME)
        if path is None:
            return None
        with self._lock:  # one reader at a time: a file unpacks to as much as 128 MiB
            try:
                state = path.stat()
            except OSError as error:
                raise TrainingImagesError(f"{path} cannot be read: {error.strerror}; {REMEDY}") from error
            stamp = (path, state.st_mtime_ns, state.st_size)
            if stamp not in self._kept:
                images = read_training_images(path)
                if _digest(path) != (files.export or {})["sha256"][NEIGHBORS_NAME]:
                    raise TrainingImagesError(f"{path} was changed after it was published; {REMEDY}")
                self._kept[stamp] = images
                while len(self._kept) > _KEPT:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(stamp)
            return self._kept[stamp]


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()

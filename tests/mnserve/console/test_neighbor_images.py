"""Training images of neighbors: the published file of the version, and no other one."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from mnserve.console.neighbor_images import PublishedImages
from mnserve.errors import ModelNotFoundError, TrainingImagesError

RECORDED = Path(__file__).parents[2] / "recorded" / "data" / "repository"


@dataclass(frozen=True)
class Version:
    """As much of an endpoint as is asked for."""

    name: str = "digits-mn"
    version: int = 1


@pytest.fixture
def published(repository: Path) -> Path:
    """Folder of the version in the repository."""
    for name in ("digits-mn", "digits-plain"):
        shutil.copytree(RECORDED / name, repository / name)
    return repository / "digits-mn" / "1"


def test_the_published_images_are_read_once(repository: Path, published: Path) -> None:
    images = PublishedImages(repository)
    found = images.of(Version())  # type: ignore[arg-type]
    assert found is not None
    assert found.images.shape[1:] == (1, 8, 8)
    assert images.of(Version()) is found  # type: ignore[arg-type]
    assert images.of(Version("digits-plain")) is None  # type: ignore[arg-type]


def test_a_file_that_was_changed_since_is_refused(repository: Path, published: Path) -> None:
    images = PublishedImages(repository)
    images.of(Version())  # type: ignore[arg-type]
    with np.load(published / "neighbors.npz") as arrays:
        changed = dict(arrays) | {"images": 255 - arrays["images"]}
    np.savez_compressed(published / "neighbors.npz", **changed)
    with pytest.raises(TrainingImagesError, match="was changed after it was published"):
        images.of(Version())  # type: ignore[arg-type]
    (published / "neighbors.npz").unlink()
    with pytest.raises(TrainingImagesError, match="cannot be read"):
        images.of(Version())  # type: ignore[arg-type]


def test_a_model_that_has_left_the_repository_is_told(repository: Path, published: Path) -> None:
    with pytest.raises(ModelNotFoundError):
        PublishedImages(repository).of(Version("gone"))  # type: ignore[arg-type]

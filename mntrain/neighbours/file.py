"""``artifact/neighbors.safetensors``: training images nearest to each entry of the dictionary.

A file of its own that an artifact may have or not: it is made after training, and only where the data may be passed on.
It names the digests of the weights and of the data that it was made with.

Shapes: U images, S entries, n nearest images of an entry.
"""

import hashlib
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from mntrain.artifact import ImageArtifact
from mntrain.errors import ArtifactError, DataError
from mntrain.files import write_atomically
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods
from mntrain.neighbours.images import NeighbourImages

NAME = "neighbors.safetensors"
_ARRAYS = ("images", "labels", "positions", "indices")


def write_neighbours(artifact: ImageArtifact, found: NeighbourImages) -> Path:
    """Put the file into the artifact whole or not at all; an older one is replaced.

    Raises:
        ArtifactError: it cannot be written.
    """
    file = artifact.path / NAME
    arrays = {name: getattr(found, name) for name in _ARRAYS}
    try:
        digests = _digests(artifact)
        write_atomically(file, lambda temporary: save_file(arrays, str(temporary), metadata=digests))
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ArtifactError(
            f"{file} cannot be written: {reason}. Make room, or copy the artifact elsewhere."
        ) from error
    return file


def read_neighbours(artifact: ImageArtifact) -> NeighbourImages | None:
    """What an artifact of a Meta-Neighborhoods model carries; None where it has no such file.

    Raises:
        ArtifactError: the file is damaged, or of other weights, data or classes than the artifact.
    """
    file = artifact.path / NAME
    if not file.exists():
        return None
    remedy = f"make it again with `mntrain neighbors {artifact.path}`, or remove it"
    try:
        with safe_open(str(file), framework="np") as stored:
            written = stored.metadata() or {}
            found = NeighbourImages(**{name: stored.get_tensor(name) for name in _ARRAYS})
        digests = _digests(artifact)
    except (SafetensorError, OSError, ValueError, TypeError, KeyError, AttributeError, DataError) as error:
        raise ArtifactError(f"{file} is damaged ({error}); {remedy}.") from error
    for name, expected in digests.items():
        if written.get(name) != expected:
            raise ArtifactError(
                f"{file} was made with other {name} than the artifact's (digest {_short(written.get(name))}, expected "
                f"{_short(expected)}); {remedy}."
            )
    if (problem := _contradiction(artifact, found)) is not None:
        raise ArtifactError(f"{file} does not fit its artifact: {problem}; {remedy}.")
    return found


def _contradiction(artifact: ImageArtifact, found: NeighbourImages) -> str | None:
    """What the file says otherwise than ``config.json`` and the weights; None where all agree."""
    config, model = artifact.config, artifact.model
    size = (config.input.channels, config.input.height, config.input.width)
    if found.images.shape[1:] != size:
        return f"its images are {list(found.images.shape[1:])}, the model takes {list(size)}"
    if found.labels.min() < 0 or found.labels.max() >= len(config.labels):
        return f"it holds labels from {found.labels.min()} to {found.labels.max()}, the model has {len(config.labels)}"
    entries = len(model.dictionary.keys) if isinstance(model, MetaNeighborhoods) else 0
    if len(found.indices) != entries:
        return f"it holds images of {len(found.indices)} entries, the dictionary has {entries}"
    return None


def _digests(artifact: ImageArtifact) -> dict[str, str]:
    """SHA-256 of the weights, and of the data and its split."""
    with (artifact.path / "model.safetensors").open("rb") as file:
        weights = hashlib.file_digest(file, "sha256").hexdigest()
    return {"weights": weights, "data": artifact.config.split["sha256"]}


def _short(digest: Any) -> str:
    return "none" if digest is None else f"{digest[:12]}…"

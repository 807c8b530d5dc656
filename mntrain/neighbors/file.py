"""``artifact/neighbors.safetensors``: training images nearest to each entry of the dictionary.

An optional file of an artifact: it is made after training, and only where the data may be passed on. It names the
digests of its weights and of its data, and of its own arrays.

Shapes: U images, S entries, n nearest images of an entry.
"""

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from mntrain.artifact import ImageArtifact
from mntrain.atomic_files import write_atomically
from mntrain.errors import ArtifactError, DataError
from mntrain.models.neighbors import HasNeighbors
from mntrain.neighbors.images import NeighborImages
from mntrain.regular_files import regular

NAME = "neighbors.safetensors"
_ARRAYS = ("images", "labels", "positions", "indices")


def write_neighbors(artifact: ImageArtifact, nearest: NeighborImages) -> Path:
    """Write the file into the artifact whole or not at all; an older one is replaced.

    Args:
        artifact: as it was loaded before the search.
        nearest: images found with its model.

    Raises:
        ArtifactError: the file cannot be written, or the artifact holds other weights by now.
    """
    file = artifact.path / NAME
    arrays = {name: getattr(nearest, name) for name in _ARRAYS}
    try:
        digests = _made_with(artifact) | {"content": _content(nearest)}
        _check_unchanged(artifact)
        write_atomically(file, lambda temporary: save_file(arrays, str(temporary), metadata=digests))
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ArtifactError(
            f"{file} cannot be written: {reason}. Make room, or copy the artifact elsewhere."
        ) from error
    return file


def read_neighbors(artifact: ImageArtifact) -> NeighborImages | None:
    """Read the nearest images of an artifact; None where it has no such file.

    Raises:
        ArtifactError: the file is damaged, or of other weights, data or classes than the artifact, or a link to none.
    """
    file = artifact.path / NAME
    if not os.path.lexists(file):
        return None
    remedy = f"make it again with `mntrain neighbors {artifact.path}`, or remove it"
    if not file.exists():
        raise ArtifactError(f"{file} is a link to {file.readlink()}, which is not there; {remedy}.")
    try:
        with safe_open(str(regular(file)), framework="np") as stored:
            written = stored.metadata() or {}
            nearest = NeighborImages(**{name: stored.get_tensor(name) for name in _ARRAYS})
    except (SafetensorError, OSError, ValueError, TypeError, KeyError, AttributeError, DataError) as error:
        raise ArtifactError(f"{file} is damaged ({error}); {remedy}.") from error
    for name, expected in _made_with(artifact).items():
        if written.get(name) != expected:
            raise ArtifactError(
                f"{file} was made with other {name} than the artifact's (digest {_short(written.get(name))}, expected "
                f"{_short(expected)}); {remedy}."
            )
    if (problem := _contradiction(artifact, nearest)) is not None:
        raise ArtifactError(f"{file} does not fit its artifact: {problem}; {remedy}.")
    if (named := written.get("content")) != (content := _content(nearest)):
        raise ArtifactError(
            f"{file} is damaged (the digest of its arrays is {_short(content)}, it names {_short(named)}); {remedy}."
        )
    return nearest


def _contradiction(artifact: ImageArtifact, nearest: NeighborImages) -> str | None:
    """Describe how the file contradicts ``config.json`` or the weights; None where all agree."""
    config, model = artifact.config, artifact.model
    size = (config.input.channels, config.input.height, config.input.width)
    if nearest.images.shape[1:] != size:
        return f"its images are {list(nearest.images.shape[1:])}, the model takes {list(size)}"
    lowest, highest = nearest.labels.min(), nearest.labels.max()
    if lowest < 0 or highest >= len(config.labels):
        return f"it holds labels from {lowest} to {highest}, the model has {len(config.labels)}"
    entries = len(model.entry_keys()) if isinstance(model, HasNeighbors) else 0
    if len(nearest.indices) != entries:
        return f"it holds images of {len(nearest.indices)} entries, the dictionary has {entries}"
    return None


def _check_unchanged(artifact: ImageArtifact) -> None:
    """Refuse weights on disk that changed since they were loaded: the search takes minutes.

    Raises:
        ArtifactError: the weights have changed.
        OSError: the weights cannot be read.
    """
    path = artifact.path / "model.safetensors"
    with regular(path).open("rb") as file:
        now = hashlib.file_digest(file, "sha256").hexdigest()
    if now != artifact.weights_sha256:
        raise ArtifactError(
            f"{path} changed while its neighbors were looked for (digest {_short(now)}, when it was loaded "
            f"{_short(artifact.weights_sha256)}). Nothing was written; run `mntrain neighbors {artifact.path}` again."
        )


def _made_with(artifact: ImageArtifact) -> dict[str, str]:
    """Name the SHA-256 of the weights, and of the data and its split."""
    return {"weights": artifact.weights_sha256, "data": artifact.config.split["sha256"]}


def _content(nearest: NeighborImages) -> str:
    """SHA-256 of the arrays, with their dtypes and shapes."""
    content = hashlib.sha256()
    for name in _ARRAYS:
        array = np.ascontiguousarray(getattr(nearest, name))
        content.update(f"{name} {array.dtype.name} {list(array.shape)}\n".encode())
        content.update(array.data)
    return content.hexdigest()


def _short(digest: Any) -> str:
    return "none" if digest is None else f"{digest[:12]}…"

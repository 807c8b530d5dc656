"""Names of images: their files, where they are files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute

from mntrain.data.image_files.rows import ImageRows


def image_names(
    splits: Mapping[str, Sequence[ImageRows]], column: str, root: Path
) -> Mapping[str, tuple[str, ...]] | None:
    """Name the images of every split by their paths below ``root``; None where one has no path."""
    found = {}
    for split, parts in splits.items():
        paths = [path for part in parts for path in _paths(part.column(column))]
        if not all(paths):
            return None
        found[split] = tuple(_below(root, str(path)) for path in paths)
    return found


def _paths(values: pa.ChunkedArray) -> list[str | None]:
    if pa.types.is_struct(values.type):
        names = [field.name for field in values.type]
        return pa.compute.struct_field(values, "path").to_pylist() if "path" in names else [None]
    text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
    return values.to_pylist() if text else [None]


def _below(root: Path, path: str) -> str:
    start = f"{root}/"
    return path[len(start) :] if path.startswith(start) else path

"""Tables of paths: the files must be there, and pictures that no table names are put down."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from mntrain.data.image_files.formats import is_picture
from mntrain.data.image_files.opened import Place
from mntrain.data.image_files.rows import ImageRows
from mntrain.data.labels import listing
from mntrain.errors import DataError


def check_files(place: Place, splits: Mapping[str, Sequence[ImageRows]], column: str) -> set[str]:
    """Check that every file that ``column`` names is there, and return their full paths.

    Raises:
        DataError: files are missing; the first is named, and their number.
    """
    named: set[str] = set()
    missing: list[str] = []
    for parts in splits.values():
        for part in parts:
            for block in part.images(column):
                for image in block:
                    if image is not None and image["bytes"] is None and image["path"] is not None:
                        path = os.path.normpath(image["path"])
                        if path not in named and not os.path.exists(path):
                            missing.append(path)
                        named.add(path)
    if missing:
        raise DataError(
            f"{place.where} names {len(missing)} file(s) that are not there: {listing(missing)}; paths are taken from "
            "the folder of the table that names them, so correct them or bring the files."
        )
    return named


def ignore_unnamed(place: Place, named: set[str], pictures: Sequence[str] | None) -> None:
    """Put down pictures that no table names: those in the folder, or beside the named ones where a file was given."""
    if pictures is None:
        folders = sorted({os.path.dirname(path) for path in named})
        pictures = [
            os.path.join(folder, name)
            for folder in folders
            if os.path.isdir(folder)
            for name in sorted(os.listdir(folder))
            if is_picture(name) and not name.startswith(".")
        ]
    top = place.path if place.path.is_dir() else place.path.parent
    for picture in pictures:
        if os.path.normpath(picture) not in named:
            place.ignored.add("pictures that no table names", _inside(picture, top))


def _inside(path: str, top: Path) -> str:
    return os.path.relpath(path, top)

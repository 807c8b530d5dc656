"""Tables of paths: the files must be there, and pictures that no table names are put down."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from mntrain.data.image_files.formats import is_picture
from mntrain.data.image_files.opened import Place
from mntrain.data.image_files.rows import ImageRows
from mntrain.data.labels import listing
from mntrain.data.reading.split_names import disguised_split, split_of
from mntrain.errors import DataError


def check_files(place: Place, splits: Mapping[str, Sequence[ImageRows]], image: str, label: str) -> set[str]:
    """Check that every file that the column ``image`` names is there, and return their full paths.

    Raises:
        DataError: files are missing, of which the first are named; or one is named twice with different labels.
    """
    labels: dict[str, object] = {}
    missing: list[str] = []
    for path, value in _named(splits, image, label):
        if path not in labels and not os.path.exists(path):
            missing.append(path)
        if labels.setdefault(path, value) != value:
            raise DataError(
                f"{place.where} names '{path}' twice, with the labels {labels[path]!r} and {value!r}; an image has one "
                "class, so remove one of the rows."
            )
    if missing:
        raise DataError(
            f"{place.where} names {len(missing)} file(s) that are not there: {listing(missing)}; paths are taken from "
            "the folder of the table that names them, so correct them or bring the files."
        )
    return set(labels)


def check_folders(place: Place, splits: Mapping[str, Sequence[ImageRows]], image: str, label: str) -> None:
    """Refuse a table without splits whose paths lie in split folders: drawn anew, test images would be trained on.

    Raises:
        DataError: naming the folders.
    """
    named = [(os.path.abspath(path), value) for path, value in _named(splits, image, label)]
    if set(splits) != {"all"} or not named:
        return
    above = os.path.commonpath([os.path.dirname(path) for path, _ in named])
    inner = [(os.path.relpath(path, above).split(os.sep), value) for path, value in named]
    # Classes may be called so, too.
    if any(len(parts) < 2 for parts, _ in inner) or all(parts[0] == value for parts, value in inner):
        return
    folders = sorted({parts[0] for parts, _ in inner})
    meant = {split_of(folder) or disguised_split(folder) for folder in folders}
    if None not in meant and "train" in meant and len(meant) > 1:
        raise DataError(
            f"{place.where} names images in the folders {listing(folders)}, but has no column of splits; add a column "
            "split that says train, validation or test (train in every row, if splits are to be drawn)."
        )


def _named(splits: Mapping[str, Sequence[ImageRows]], image: str, label: str) -> Iterator[tuple[str, object]]:
    """Return the full path and the label of every row that has a path."""
    for parts in splits.values():
        for part in parts:
            values = part.column(label).to_pylist()
            images = chain.from_iterable(part.images(image))
            for encoded, value in zip(images, values, strict=True):
                if encoded is not None and encoded["path"] is not None:
                    yield os.path.normpath(encoded["path"]), value


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
            place.ignored.add("pictures that no table names", os.path.relpath(picture, top))

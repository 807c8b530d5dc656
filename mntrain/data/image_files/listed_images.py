"""Open images that text files list: paths below one folder, and the numbers of their classes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from mntrain.data.hugging_face import datasets
from mntrain.data.image_files.list_files import ImageList, check_numbers, find_lists, read_list
from mntrain.data.image_files.list_names import folder_names, named_classes
from mntrain.data.image_files.opened import OpenedImages, Place
from mntrain.data.image_files.rows import ImageRows, MemoryRows
from mntrain.data.labels import class_name, listing
from mntrain.errors import DataError

_MISSING = "images of a list that are not there"
_REPEATED = "lines of a list that name an image again"


def open_lists(place: Place) -> OpenedImages:
    """Open the lists of a place.

    Class i has the i-th name: of ``data.class_names``, of the folder of its images, or its number.

    Raises:
        DataError: lists or names cannot be used, or images are missing and may not be.
    """
    files = find_lists(place)
    lists = {split: read_list(file) for split, file in files.items()}
    for each in lists.values():
        for path in each.repeated:
            place.ignored.add(_REPEATED, path)
    classes = check_numbers(lists, trained=place.trained)
    names, origin = _names(place, next(iter(lists.values())), classes)
    lists = _present(place, lists)
    if place.config.missing_images == "leave_out":
        check_numbers(lists, trained=place.trained)
    told = "; ".join(f"{split} from {file.name}" for split, file in files.items())
    return OpenedImages(
        splits={split: _rows(place, each, names) for split, each in lists.items()}
        if len(lists) > 1
        else {"all": _rows(place, next(iter(lists.values())), names)},
        layout=f"lists of paths and classes; classes are named by {origin}",
        split_words=f"by the names of lists: {told}"
        if len(lists) > 1
        else f"drawn from {next(iter(files.values())).name}",
        from_folders=True,
    )


def _names(place: Place, first: ImageList, classes: int) -> tuple[tuple[str, ...], str]:
    """Name the classes, and say by what."""
    folders = folder_names(first, classes)
    if place.config.class_names is not None:
        names = named_classes(place.config.class_names, folders, classes)
        return tuple(map(class_name, names)), f"the file {place.config.class_names}"
    if folders is not None:
        return tuple(map(class_name, folders)), "their folders"
    return tuple(str(number) for number in range(classes)), "their numbers"


def _present(place: Place, lists: Mapping[str, ImageList]) -> dict[str, ImageList]:
    """Keep the lines whose image is there.

    Raises:
        DataError: images are missing, and ``data.missing_images`` is refuse, or a list has no other.
    """
    present, missing, total = {}, [], 0
    for split, images in lists.items():
        there = [os.path.isfile(place.path / path) for path in images.paths]
        missing += [path for path, found in zip(images.paths, there, strict=True) if not found]
        total += len(there)
        if not any(there):
            raise DataError(
                f"None of the {len(there)} images of '{images.file}' is in {place.where}, the first being "
                f"'{images.paths[0]}'; set data.path to the folder that the paths of the lists start in."
            )
        present[split] = replace(
            images,
            paths=tuple(path for path, found in zip(images.paths, there, strict=True) if found),
            labels=tuple(label for label, found in zip(images.labels, there, strict=True) if found),
        )
    if missing and place.config.missing_images == "refuse":
        raise DataError(
            f"{len(missing):,} of the {total:,} listed images are not in {place.where}: {listing(missing)}; bring "
            "them, or set data.missing_images to leave_out."
        )
    for path in missing:
        place.ignored.add(_MISSING, path)
    return present


def _rows(place: Place, images: ImageList, names: tuple[str, ...]) -> list[ImageRows]:
    table = pa.table({"image": pa.array(images.paths, pa.string()), "label": pa.array(images.labels, pa.int64())})
    features = {"image": datasets.Image(), "label": datasets.ClassLabel(names=list(names))}
    return [MemoryRows(name=f"'{images.file}'", table=table, base=place.path, features=features)]

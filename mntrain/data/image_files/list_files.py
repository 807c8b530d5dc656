"""Lists of images in text files: a path and the number of a class a line, as ImageNet-LT and Places-LT have them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mntrain.data.image_files.opened import Place
from mntrain.data.labels import listing
from mntrain.data.reading.local_path import local_path
from mntrain.data.reading.split_names import split_of
from mntrain.errors import DataError
from mntrain.regular_files import read_text

_PARTS = re.compile(r"[-_. ]")
_SPLITS = ("train", "validation", "test")


@dataclass(frozen=True, kw_only=True)
class ImageList:
    """Lines of one list.

    Args:
        file: that was read.
        paths: of the images, as they stand there.
        labels: number of the class of each.
        repeated: paths of lines that name an image again, in the same class; such a line is left out.
    """

    file: Path
    paths: tuple[str, ...]
    labels: tuple[int, ...]
    repeated: tuple[str, ...] = ()


def find_lists(place: Place) -> dict[str, Path]:
    """Find the list of each split: text files whose name ends with the name of a split, as ``ImageNet_LT_train.txt``.

    Raises:
        DataError: there is no list of train, or there are two of one split.
    """
    given = place.config.lists
    start = place.path if given is None else local_path(given)
    folder, beginning = (start, "") if start.is_dir() else (start.parent, start.name)
    where = f"'{start}'"
    if not folder.is_dir():
        raise DataError(f"{where} does not exist; check data.lists (a folder, or the beginning of the lists' names).")
    found: dict[str, Path] = {}
    for file in sorted(folder.glob("*.txt")):
        split = split_of(_PARTS.split(file.stem)[-1])
        if not file.name.startswith(beginning) or split is None:
            continue
        if split in found:
            raise DataError(
                f"{where} holds two lists of the {split} split, '{found[split].name}' and '{file.name}'; set "
                f"data.lists to the beginning of those that are meant, such as '{folder / file.stem[: -len(split)]}'."
            )
        found[split] = file
    if "train" not in found and place.trained:
        raise DataError(
            f"{where} holds no list of training images; a list is a text file whose name ends with train, val or test, "
            "such as ImageNet_LT_train.txt, with a path and the number of a class a line. Check data.lists."
        )
    if not found:
        raise DataError(f"{where} holds no list such as ImageNet_LT_test.txt; check data.lists.")
    return {split: found[split] for split in _SPLITS if split in found}


def read_list(file: Path) -> ImageList:
    """Read a list; blank lines do not count, and an image that is named twice counts once.

    Raises:
        DataError: a line is no path with the number of a class, or leads out of the folder that paths start in; an
            image has two classes; or the file cannot be read, or holds no line.
    """
    try:
        lines = read_text(file).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise DataError(f"'{file}' cannot be read: {reason}.") from error
    found: dict[str, tuple[str, int]] = {}
    repeated: list[str] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        path, label = _read_line(file, number, line)
        image = os.path.normpath(path)
        if image not in found:
            found[image] = path, label
        elif (known := found[image][1]) == label:
            repeated.append(path)
        else:
            raise DataError(
                f"'{file}' names '{path}' twice, in the classes {known} and {label}; an image has one class, so "
                "remove one of the lines."
            )
    if not found:
        raise DataError(f"'{file}' holds no image; every list needs at least one.")
    paths, labels = zip(*found.values(), strict=True)
    return ImageList(file=file, paths=paths, labels=labels, repeated=tuple(repeated))


def _read_line(file: Path, number: int, line: str) -> tuple[str, int]:
    """Return path and class of a line.

    Raises:
        DataError: it is none, or the path may lead out of its folder: lists come from others, who are not to choose
            which files of this machine are read.
    """
    path, _, label = line.strip().replace("\t", " ").rpartition(" ")
    path = path.strip()
    if not path or not label.isdecimal() or len(label) > 9:
        raise DataError(
            f"'{file}', line {number}: {line.strip()[:80]!r} is no path followed by the number of a class, such as "
            "'train/n01440764/n01440764_190.JPEG 0'; correct it."
        )
    if os.path.isabs(path) or ".." in Path(path).parts:
        raise DataError(
            f"'{file}', line {number}: {path[:80]!r} leads out of the folder of the images; write paths that start in "
            "data.path, without '..'."
        )
    return path, int(label)


def check_numbers(lists: Mapping[str, ImageList], *, trained: bool) -> int:
    """Check that the training list numbers its classes 0 to C - 1, and that no other list has a class beyond.

    Args:
        lists: by split, that of train first.
        trained: for training; otherwise any numbers will do.

    Returns:
        C.

    Raises:
        DataError: numbers are left out, or beyond.
    """
    if not trained:
        return max(max(each.labels) for each in lists.values()) + 1
    first = next(iter(lists))
    known = set(lists[first].labels)
    classes = max(known) + 1
    gaps = [number for number in range(classes) if number not in known]
    if gaps:
        raise DataError(
            f"'{lists[first].file}' numbers its classes up to {classes - 1}, but {len(gaps)} of them have no image "
            f"there: {listing(gaps)}; number the classes from 0 on without gaps, or add images of them."
        )
    for each in lists.values():
        beyond = sorted(set(each.labels) - known)
        if beyond:
            raise DataError(
                f"'{each.file}' has classes that '{lists[first].file}' does not have: {listing(beyond)}; correct their "
                "numbers, or remove those images."
            )
    return classes

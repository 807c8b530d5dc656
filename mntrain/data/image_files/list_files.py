"""Lists of images in text files: a path and the number of a class a line, as ImageNet-LT and Places-LT have them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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
    """

    file: Path
    paths: tuple[str, ...]
    labels: tuple[int, ...]


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
    """Read a list; blank lines do not count.

    Raises:
        DataError: a line is no path with the number of a class, or the file cannot be read, or holds no line.
    """
    try:
        lines = read_text(file).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise DataError(f"'{file}' cannot be read: {reason}.") from error
    paths, labels = [], []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        path, _, label = line.strip().replace("\t", " ").rpartition(" ")
        if not path.strip() or not label.isdecimal() or len(label) > 9:
            raise DataError(
                f"'{file}', line {number}: {line.strip()[:80]!r} is no path followed by the number of a class, such as "
                "'train/n01440764/n01440764_190.JPEG 0'; correct it."
            )
        paths.append(path.strip())
        labels.append(int(label))
    if not paths:
        raise DataError(f"'{file}' holds no image; every list needs at least one.")
    _check_twice(file, paths, labels)
    return ImageList(file=file, paths=tuple(paths), labels=tuple(labels))


def check_gaps(lists: Mapping[str, ImageList]) -> int:
    """Check that the training list numbers its classes 0 to C - 1, and that no other list has a class beyond.

    Returns:
        C.

    Raises:
        DataError: numbers are left out, or beyond.
    """
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


def _check_twice(file: Path, paths: Sequence[str], labels: Sequence[int]) -> None:
    seen: dict[str, int] = {}
    for path, label in zip(paths, labels, strict=True):
        if seen.setdefault(path, label) != label:
            raise DataError(
                f"'{file}' names '{path}' twice, in the classes {seen[path]} and {label}; an image has one class, so "
                "remove one of the lines."
            )

"""Names of the classes of lists of images: from a file of names, or from the folders that their images lie in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from mntrain.data.image_files.list_files import ImageList
from mntrain.data.reading.local_path import local_path
from mntrain.errors import DataError
from mntrain.regular_files import read_text


def folder_names(images: ImageList, classes: int) -> tuple[str, ...] | None:
    """Name each class by the folder of its images, below the folder that all have in common.

    ``train/n01440764/n01440764_190.JPEG 0`` names class 0 ``n01440764``.

    Returns:
        Names in the order of numbers; None where the images of a class lie in several folders, or two classes share
        one.
    """
    folders: list[set[tuple[str, ...]]] = [set() for _ in range(classes)]
    for path, label in zip(images.paths, images.labels, strict=True):
        folders[label].add(PurePosixPath(path.replace("\\", "/")).parts[:-1])
    flat = {parts for found in folders for parts in found}
    if any(len(found) != 1 for found in folders) or len(flat) < classes or () in flat:
        return None
    shared = 0
    while len({parts[: shared + 1] for parts in flat}) == 1:
        shared += 1
    return tuple("/".join(next(iter(found))[shared:]) or next(iter(found))[-1] for found in folders)


def named_classes(path: str, folders: Sequence[str] | None, classes: int) -> tuple[str, ...]:
    """Read class names from a file.

    Three forms are understood: a name and its number a line (``/a/airfield 0``); a folder and its name
    (``n01440764 tench, Tinca tinca``), where every folder of the images has a line; or a name a line, in the order of
    numbers.

    Args:
        path: of the file.
        folders: name of each class by its folder; None where it has none.
        classes: number C of classes.

    Raises:
        DataError: the file cannot be read, or does not name every class.
    """
    file = local_path(path)
    lines = _lines(file)
    ends = [line.rpartition(" ") for line in lines]
    if all(name.strip() and number.isdecimal() for name, _, number in ends):
        by_number = {int(number): name.strip() for name, _, number in ends}
        if set(range(classes)) <= by_number.keys():
            return tuple(by_number[number] for number in range(classes))
    if folders is not None:
        by_folder = {folder: name.strip() for folder, _, name in (line.partition(" ") for line in lines)}
        if set(folders) <= by_folder.keys():
            return tuple(f"{folder} {by_folder[folder]}".strip() for folder in folders)
    if len(lines) != classes:
        raise DataError(
            f"'{file}' has {len(lines)} lines, but the lists have {classes} classes; give one name a line in the order "
            "of their numbers, 'NAME NUMBER' lines, or 'FOLDER NAME' lines for all of them, or leave data.class_names "
            "out."
        )
    return tuple(lines)


def _lines(file: Path) -> list[str]:
    try:
        text = read_text(file)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise DataError(f"data.class_names is '{file}', which cannot be read: {reason}.") from error
    return [line.strip().replace("\t", " ") for line in text.splitlines() if line.strip()]

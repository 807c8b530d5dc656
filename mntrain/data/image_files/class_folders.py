"""The rule for folders of pictures: split folders at the top only, then class folders, then pictures.

Folders at the top are splits where all of them have split names, one of them is a train folder, and they hold folders;
otherwise they are the classes. Pictures deeper than a class folder are taken where ``nested`` asks for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mntrain.data.image_files.split_groups import SplitGroups, group_splits
from mntrain.data.image_files.tree import Folder, IgnoredFiles
from mntrain.data.labels import class_name, listing
from mntrain.data.reading.split_names import disguised_split, split_of
from mntrain.errors import ConfigError, DataError


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A picture file and its class.

    Args:
        path: within the folder that was listed.
        label: name of the class.
    """

    path: str
    label: str


def split_folders(root: Folder, *, test: str | None, where: str, trained: bool = True) -> SplitGroups | None:
    """Group the folders at the top by split; None where they are no splits.

    Args:
        root: the folder that was listed.
        test: ``data.test_split``, a further name of a split.
        where: for messages.
        trained: one of them must be a train folder.

    Raises:
        DataError: two folders mean the same split, or a split folder is empty while others are not.
        ConfigError: ``test`` is no split folder.
    """

    def known(folder: Folder) -> bool:
        return split_of(folder.name) is not None or folder.name == test

    full = [folder for folder in root.folders if _holds_examples(folder)]
    lacking = trained and all(split_of(folder.name) != "train" for folder in full)
    if lacking or not full or not all(map(known, full)) or not any(map(_is_split, full)):
        if test is not None:
            raise ConfigError(
                f"data.test_split is {test!r}, but {where} has no split folders at its top "
                f"({listing(_quoted([folder.name for folder in root.folders]))}); leave it out."
            )
        _check_train_and_test(full, where)
        _check_disguised(full, where)
        return None
    empty = [folder.name for folder in root.folders if known(folder) and not _holds_examples(folder)]
    if empty:
        raise DataError(f"{where}: the split folder {listing(_quoted(empty))} holds no pictures; fill or remove it.")
    names = [folder.name for folder in full]
    return group_splits(names, what="folders", where=where, test=test, strict=True, trained=trained)


def _check_train_and_test(full: Sequence[Folder], where: str) -> None:
    """Refuse a train and a test folder that hold pictures directly: nobody tells classes apart that are called so."""
    splits = [split_of(folder.name) for folder in full]
    if None not in splits and {"train", "test"} <= set(splits) and all(folder.pictures for folder in full):
        paths = [path for folder in full for path in folder.own_pictures()[:1]]
        raise DataError(
            f"{where}: split folders hold pictures directly, without class folders ({listing(_quoted(paths))}); put "
            "each picture into the folder of its class, or name their classes in a table (metadata.csv)."
        )


def _check_disguised(full: Sequence[Folder], where: str) -> None:
    """Refuse folders like training_set and test_set, whose names would be learned as classes."""
    splits = [split_of(folder.name) or disguised_split(folder.name) for folder in full]
    told = [folder.name for folder in full if disguised_split(folder.name)]
    if told and None not in splits and "train" in splits and len(set(splits)) > 1:
        raise DataError(
            f"{where}: the folders {listing(_quoted(told))} seem to be splits, but are not called train, validation "
            "or test; rename them, so that they are splits or plainly classes."
        )


def class_pictures(folder: Folder, *, nested: bool, ignored: IgnoredFiles, where: str) -> list[Picture]:
    """List the pictures of the class folders in ``folder``, in the order of their paths.

    Raises:
        DataError: pictures lie beside or (without ``nested``) below the class folders, or a class has no usable name.
    """
    full = []
    for child in folder.folders:
        if child.has_pictures():
            full.append(child)
        else:
            ignored.add("folders without a picture that can be read", child.inside)
    _check_depth(folder, full, nested=nested, where=where)
    names: dict[str, Folder] = {}
    pictures = []
    for child in full:
        label = _class_name(child, where)
        if label in names:
            raise DataError(
                f"{where}: the folders {names[label].inside!a} and {child.inside!a} have the same name, "
                "but for spaces or Unicode's forms; join them, or rename one."
            )
        names[label] = child
        pictures += [Picture(path=path, label=label) for path in child.all_pictures()]
    return sorted(pictures, key=lambda picture: picture.path)


def check_beside(folder: Folder, *, where: str) -> None:
    """Refuse pictures right in a folder that ought to hold folders only.

    Raises:
        DataError: naming the first of them.
    """
    paths = folder.own_pictures()
    if paths:
        inside = f"right in '{folder.inside}'" if folder.inside else "at its top"
        raise DataError(
            f"{where} holds {len(paths)} picture(s) {inside}, outside any class folder: {listing(_quoted(paths))}; put "
            "each into the folder of its class, or move them away."
        )


def _holds_examples(folder: Folder) -> bool:
    return folder.has_pictures() or bool(folder.tables)


def _is_split(folder: Folder) -> bool:
    return bool(folder.tables) or any(child.has_pictures() for child in folder.folders)


def _check_depth(folder: Folder, full: Sequence[Folder], *, nested: bool, where: str) -> None:
    deep = [path for child in full for path in child.deeper_pictures()]
    hint = "" if folder.inside or not deep else _split_hint(full)
    if deep and (not nested or (hint and _are_splits(full))):
        classes = listing(_quoted([child.name for child in full]))
        remedy = (
            "rename or move away those folders"
            if nested
            else f"move them up, or set data.nested to true to take them for {classes}"
        )
        raise DataError(
            f"{where}: {len(deep)} picture(s) lie deeper than the class folders: {listing(_quoted(deep))}.{hint} "
            f"{remedy[0].upper()}{remedy[1:]}."
        )
    if deep and nested:
        _check_no_splits_below(full, where)
    if full:
        check_beside(folder, where=where)
        return
    found = folder.own_pictures()
    tables = [each.inside for each in folder.walk() if each.tables]
    if tables and not found:
        raise DataError(
            f"{where} holds no pictures, but tables in {listing(_quoted(tables))}; set data.path to that folder, or to "
            "one of its files."
        )
    holds = f"{len(found)} picture(s) and no class folder: {listing(_quoted(found))}" if found else "no picture"
    name = f"{where}, folder '{folder.inside}'," if folder.inside else where
    raise DataError(f"{name} holds {holds}; it needs one sub-folder for each class, with the pictures of that class.")


def _check_no_splits_below(full: Sequence[Folder], where: str) -> None:
    """Refuse splits below classes, which would be learned together."""
    below = [child for parent in full for child in parent.folders if child.has_pictures()]
    meant = {split_of(child.name) for child in below}
    if None not in meant and "train" in meant and len(meant) > 1:
        names = listing(_quoted([child.inside for child in below]))
        raise DataError(
            f"{where}: the split folders {names} lie below class folders, "
            "and would all be learned together; put split folders at the top, and class folders into them."
        )


def _split_hint(full: Sequence[Folder]) -> str:
    """Say why folders that are called like splits are not taken for splits; empty where none is called so."""
    taken = [child.name for child in full if split_of(child.name) is not None]
    others = [child.name for child in full if split_of(child.name) is None]
    if not taken:
        return ""
    reason = f"{listing(_quoted(others))} beside is no split name" if others else "none of them is called train"
    return f" The split name(s) {listing(_quoted(taken))} make no splits, since {reason}."


def _are_splits(full: Sequence[Folder]) -> bool:
    """Tell if some folders are surely meant as splits, whatever lies beside them."""
    taken = {split for child in full if (split := split_of(child.name)) is not None}
    return len(taken) > 1 and ("train" in taken or all(split_of(child.name) for child in full))


def _class_name(folder: Folder, where: str) -> str:
    name = class_name(folder.name)
    if name.splitlines() != [name]:
        raise DataError(
            f"{where}: the class folder {folder.inside!r} has a line break in its name, and names of classes are "
            "written one a line; rename it."
        )
    return name


def _quoted(paths: Sequence[str]) -> list[str]:
    return [f"'{path}'" if path.isprintable() else repr(path) for path in paths]

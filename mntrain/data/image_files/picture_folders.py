"""Open folders of pictures: class folders, with or without split folders above them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from mntrain.data.hugging_face import datasets
from mntrain.data.image_files.class_folders import check_beside, class_pictures, split_folders
from mntrain.data.image_files.opened import OpenedImages, Place
from mntrain.data.image_files.rows import ImageRows, MemoryRows
from mntrain.data.image_files.split_groups import SplitGroups
from mntrain.data.image_files.table_folders import ignore_tables_below, open_tables, table_files
from mntrain.data.image_files.tree import Folder
from mntrain.data.labels import listing
from mntrain.errors import DataError


def open_pictures(place: Place, root: Folder) -> OpenedImages:
    """Open the class folders in ``root``, or those in its split folders; split folders may hold tables instead.

    Raises:
        DataError: folders or pictures break the rule.
        ConfigError: ``data.test_split`` does not fit.
    """
    groups = split_folders(root, test=place.config.test_split, where=place.where, trained=place.trained)
    if groups is None:
        ignore_tables_below(place, root)
        return _of_classes({"all": _class_rows(place, root)}, place, "class folders", "drawn from all pictures")
    check_beside(root, where=place.where)
    by_name = {folder.name: folder for folder in root.folders}
    for name in groups.left_out:
        for picture in by_name[name].all_pictures():
            place.ignored.add("pictures of splits that are not used", picture)
    used = {split: by_name[names[0]] for split, names in groups.groups.items()}
    tables = {split: table_files(place, folder) for split, folder in used.items()}
    if any(tables.values()):
        return _of_tables(place, used, tables, groups)
    for folder in used.values():
        ignore_tables_below(place, folder)
    found = {split: _class_rows(place, folder) for split, folder in used.items()}
    return _of_classes(found, place, "split folders, then class folders", groups.words)


def _of_classes(splits: Mapping[str, Sequence[ImageRows]], place: Place, layout: str, split_words: str) -> OpenedImages:
    return OpenedImages(
        splits=splits,
        layout=f"{layout}, then pictures{' at any depth' if place.config.nested else ''}",
        split_words=split_words,
        from_folders=True,
    )


def _of_tables(
    place: Place, used: Mapping[str, Folder], tables: Mapping[str, Sequence[Path]], groups: SplitGroups
) -> OpenedImages:
    without = [folder.name for split, folder in used.items() if not tables[split]]
    if without:
        others = [folder.name for split, folder in used.items() if tables[split]]
        raise DataError(
            f"{place.where}: {listing(others)} holds tables, {listing(without)} none; give all splits the same form."
        )
    parts = {split: open_tables(place, tables[split], folder=folder, joined=True) for split, folder in used.items()}
    return OpenedImages(
        splits={split: part.splits["all"] for split, part in parts.items()},
        layout="split folders, then tables",
        split_words=groups.words,
        pictures=tuple(picture for part in parts.values() for picture in part.pictures or ()),
    )


def _class_rows(place: Place, folder: Folder) -> list[ImageRows]:
    pictures = class_pictures(folder, nested=place.config.nested, ignored=place.ignored, where=place.where)
    table = pa.table(
        {
            "image": pa.array([picture.path for picture in pictures], pa.string()),
            "label": pa.array([picture.label for picture in pictures], pa.string()),
        }
    )
    features = {"image": datasets.Image(), "label": datasets.Value("string")}
    return [MemoryRows(name=place.where, table=table, base=place.path, features=features)]

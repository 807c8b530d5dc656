"""Open tables of images, or of paths to images: one file, or a folder of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from mntrain.data.image_files.columns import holds_paths
from mntrain.data.image_files.opened import OpenedImages, Place
from mntrain.data.image_files.split_groups import SplitGroups, group_splits
from mntrain.data.image_files.table_files import open_table
from mntrain.data.image_files.tree import Folder
from mntrain.data.labels import listing
from mntrain.errors import DataError


def table_files(place: Place, folder: Folder) -> list[Path]:
    """Return the tables right in a folder; one called metadata stands for all of them.

    Raises:
        DataError: several are called metadata.
    """
    names = list(folder.tables)
    metadata = [name for name in names if Path(name).stem.lower() == "metadata"]
    if len(metadata) > 1:
        raise DataError(f"{place.where} holds {listing(metadata)}, which all list the images; remove all but one.")
    unused = [name for name in names if metadata and name not in metadata]
    reason = "tables beside metadata"
    if not metadata and (folder.has_pictures() or any(not name.lower().endswith(".json") for name in names)):
        unused = [name for name in names if name.lower().endswith(".json") and not _has_rows(place, folder, name)]
        reason = "JSON files without rows"
    for name in unused:
        place.ignored.add(reason, folder.within(name))
    return [place.path / folder.within(name) for name in metadata or names if name not in unused]


def open_tables(
    place: Place, files: Sequence[Path], *, folder: Folder | None = None, joined: bool = False
) -> OpenedImages:
    """Open tables, which are splits where their names say so, and are joined otherwise.

    Args:
        place: that they are in.
        files: of the tables.
        folder: that holds them; None where a file was named itself.
        joined: whatever they are called, since they lie in the folder of a split.

    Raises:
        DataError: a table cannot be read, names do not agree, or pictures lie beside tables without paths.
        ConfigError: ``data.test_split`` does not fit.
    """
    stems: dict[str, Path] = {}
    for file in files:
        if file.stem in stems:
            raise DataError(
                f"{place.where} holds '{stems[file.stem].name}' and '{file.name}', which seem to be the same rows "
                "twice; remove or rename one."
            )
        stems[file.stem] = file
    if joined:
        groups = SplitGroups(groups={"all": list(stems)})
    else:
        test = place.config.test_split
        groups = group_splits(
            list(stems), what="files", where=place.where, test=test, shards=True, strict=True, trained=place.trained
        )
    for stem in groups.left_out:
        place.ignored.add("tables of splits that are not used", stems[stem].name)
    rows = {stem: open_table(file) for stem, file in stems.items() if stem not in groups.left_out}
    paths = any(holds_paths(part, place.config.image_column) for part in rows.values())
    pictures = None
    if folder is not None:
        found = folder.all_pictures()
        if found and not paths:
            raise DataError(
                f"{place.where} holds {len(found)} picture(s) ({listing(found)}) and {listing([f.name for f in files])}"
                ", without a column of paths such as file_name, so either could be meant. Move one away, name the "
                "column with data.image_column, or give the file as data.path."
            )
        pictures = tuple(os.path.normpath(place.path / path) for path in found)
        ignore_tables_below(place, folder)
    kind = "of paths to images" if paths else "of images"
    return OpenedImages(
        splits={split: [rows[stem] for stem in names] for split, names in groups.groups.items()},
        layout=f"a table {kind}" if len(rows) == 1 else f"{len(rows)} tables {kind}",
        split_words=groups.words,
        pictures=pictures,
    )


def ignore_tables_below(place: Place, folder: Folder) -> None:
    """Put down the tables in the folders of ``folder``, which nothing reads."""
    for below in folder.folders:
        for each in below.walk():
            for name in each.tables:
                place.ignored.add("tables and JSON files below the folder that is read", each.within(name))


def _has_rows(place: Place, folder: Folder, name: str) -> bool:
    try:
        return len(open_table(place.path / folder.within(name))) > 0
    except DataError:
        return False

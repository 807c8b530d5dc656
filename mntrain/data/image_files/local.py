"""Open the labelled images at a local path: a saved data set, a table, or a folder of tables or of pictures."""

from __future__ import annotations

import os
from collections.abc import Mapping

import pyarrow as pa

from mntrain.data.hugging_face import DatasetsError, datasets
from mntrain.data.image_files.opened import OpenedImages, Place
from mntrain.data.image_files.picture_folders import open_pictures
from mntrain.data.image_files.rows import DatasetRows
from mntrain.data.image_files.split_groups import group_splits
from mntrain.data.image_files.table_folders import open_tables, table_files
from mntrain.data.image_files.tree import list_tree
from mntrain.errors import ConfigError, DataError
from mntrain.regular_files import regular

_SAVED = ("dataset_dict.json", "state.json")
_DESCRIBING = (*_SAVED, "dataset_info.json")
# IndexError: an empty split.
_UNREADABLE = (
    DatasetsError, OSError, ValueError, IndexError, RuntimeError, KeyError, TypeError, pa.ArrowException,
)  # fmt: skip


def open_local(place: Place) -> OpenedImages:
    """Open a path that exists.

    Raises:
        DataError: what lies there follows none of the rules, or cannot be read.
        ConfigError: a field of the configuration does not fit what lies there.
    """
    path, config = place.path, place.config
    if not path.is_dir() and not path.is_file():
        raise DataError(f"{place.where} is a pipe, a socket or a device; set data.path to a file or a folder.")
    if config.subset is not None:
        kind = "a single file" if path.is_file() else "a local folder"
        raise ConfigError(f"data.subset is {config.subset!r}, but {place.where} is {kind}; leave it out.")
    if path.is_file():
        opened = open_tables(place, [path])
    elif any((path / name).is_file() for name in _SAVED):
        opened = _open_saved(place)
    else:
        root = list_tree(path, place.ignored)
        files = table_files(place, root)
        opened = open_tables(place, files, folder=root) if files else open_pictures(place, root)
    if config.nested and not opened.from_folders:
        raise ConfigError(
            f"data.nested is true, but {place.where} holds {opened.layout}, no class folders; leave it out."
        )
    return opened


def open_data_sets(place: Place, found: Mapping[str, datasets.Dataset], *, local: bool) -> OpenedImages:
    """Open the splits of a data set of the hub, or of a saved one.

    Raises: as :func:`~mntrain.data.image_files.split_groups.group_splits`.
    """
    groups = group_splits(
        list(found),
        what="splits",
        where=place.where,
        test=place.config.test_split,
        strict=False,
        trained=place.trained,
    )
    for name in groups.left_out:
        place.ignored.add_count("images of splits that are not used", found[name].num_rows, f"split {name}")
    rows = {
        name: DatasetRows(name=f"split {name}", dataset=table, base=place.path, local=local)
        for name, table in found.items()
    }
    return OpenedImages(
        splits={split: [rows[name] for name in names] for split, names in groups.groups.items()},
        layout="a data set saved to disk" if local else "a data set on the hub",
        split_words=groups.words,
    )


def _open_saved(place: Place) -> OpenedImages:
    try:
        for file in place.path.rglob("*"):
            regular(file)
        opened = datasets.load_from_disk(str(place.path))
    except _UNREADABLE as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise DataError(
            f"{place.where} cannot be read ({type(error).__name__}: {reason}); its files may be damaged, empty, or not "
            "belong together: save it anew."
        ) from error
    found = dict(opened) if isinstance(opened, datasets.DatasetDict) else {"all": opened}
    _ignore_others(place, found)
    return open_data_sets(place, found, local=True)


def _ignore_others(place: Place, found: Mapping[str, datasets.Dataset]) -> None:
    """Put down the files of a saved set that none of its splits names."""
    named = {os.path.realpath(file["filename"]) for table in found.values() for file in table.cache_files}
    for file in sorted(place.path.rglob("*")) if named else ():
        if file.is_file() and file.name not in _DESCRIBING and os.path.realpath(file) not in named:
            place.ignored.add("files that the saved data set does not name", str(file.relative_to(place.path)))

"""A name on the Hugging Face hub, or any local path that the source ``images`` reads."""

from __future__ import annotations

import os
from pathlib import Path

from mntrain.data.config import DataConfig
from mntrain.data.hugging_face import DatasetsError, datasets
from mntrain.data.image_files.formats import TABLE_SUFFIXES
from mntrain.data.image_files.labelled import load_labelled
from mntrain.data.image_files.local import open_data_sets, open_local
from mntrain.data.image_files.opened import Place
from mntrain.data.images import SourceImages
from mntrain.data.reading.quiet import quiet_datasets
from mntrain.errors import ConfigError, DataError


def load(config: DataConfig, *, trained: bool = True) -> SourceImages:
    """Load the labelled images at ``config.path``, a local file or folder or a name on the hub.

    Splits named train, validation (val, valid, dev) and test are kept; splits of other names beside a train
    split are left out on the hub. ``config.test_split`` names the split that is tested on where it is called otherwise,
    or where the one called test has no labels.

    Args:
        config: of the data.
        trained: there must be a train split, and no class beyond those of it.

    Raises:
        DataError: nothing can be read there, or the images or labels cannot be used.
        ConfigError: a column, subset or split is named wrongly, or several columns would do.
    """
    path = str(config.path)
    local = Path(path).expanduser()
    if not os.path.exists(local) and _looks_local(path):
        raise DataError(f"'{path}' does not exist; check data.path (a folder, a file, or a name on the hub).")
    place = Place(path=local, config=config, trained=trained)
    with quiet_datasets():
        opened = (
            open_local(place) if os.path.exists(local) else open_data_sets(place, _download(config, path), local=False)
        )
        return load_labelled(place, opened)


def _looks_local(path: str) -> bool:
    """Tell if ``path`` can only be meant as a path: hub names are NAME or OWNER/NAME."""
    return path.startswith((".", "/", "~")) or path.count("/") > 1 or Path(path).suffix.lower() in TABLE_SUFFIXES


def _download(config: DataConfig, path: str) -> dict[str, datasets.Dataset]:
    if config.nested:
        raise ConfigError(f"data.nested is true, but '{path}' is a name on the hub, not a folder; leave it out.")
    try:
        return dict(datasets.load_dataset(path, config.subset))
    # RuntimeError: a set with a loading script, which is not run.
    except (DatasetsError, OSError, ValueError, IndexError, RuntimeError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: BaseException) -> DataError:
    cause = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    reason = (str(cause).strip().splitlines() or [type(cause).__name__])[0].rstrip(".")
    if isinstance(error, ConnectionError):
        return DataError(
            f"'{path}' is no local folder or file, and the Hugging Face hub cannot be reached ({reason}); "
            "check data.path or the connection."
        )
    return DataError(
        f"'{path}' is neither a local folder or file nor a readable data set on the Hugging Face hub "
        f"({reason}); check data.path."
    )

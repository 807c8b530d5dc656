"""Load the data that a configuration names, and split it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mntrain.data.config import DataConfig
from mntrain.data.images import ImageData, SourceImages
from mntrain.data.leaks import check_leaks
from mntrain.data.split import split_images, split_table
from mntrain.data.tables import SourceTable, TableData
from mntrain.errors import ConfigError

_OF_OWN_DATA = ("images", "datasets", "image-lists")


def load_data(config: DataConfig) -> ImageData | TableData:
    """Load the data that ``config`` names into memory, and split it.

    Raises:
        DataError: files are missing or corrupt, or what they hold cannot be used; or ``data.leaks`` refuses it.
        ConfigError: a field of ``config`` does not fit the data.
    """
    source = load_source(config)
    data = split_images(source, config) if isinstance(source, SourceImages) else split_table(source, config)
    if config.leaks == "refuse":
        check_leaks(data)
    return data


def load_images(config: DataConfig) -> ImageData:
    """Load and split the data of a source of images; see :func:`load_data`.

    Raises:
        ConfigError: the source holds rows.
    """
    data = load_data(config)
    if not isinstance(data, ImageData):
        raise ConfigError(f"data.source is {config.source!r}, which holds rows; choose a source of images.")
    return data


def load_source(config: DataConfig) -> SourceImages | SourceTable:
    """Load the splits that the source itself has.

    Raises: as :func:`load_data`.
    """
    loaded: SourceImages | SourceTable = _module(config).load(config)
    return loaded


def load_unseen_images(config: DataConfig) -> SourceImages:
    """Load images that no model is trained on: splits of any name will do, and each may have classes of its own.

    Raises:
        ConfigError: the source holds rows, or a field of ``config`` does not fit.
        DataError: files are missing or corrupt, or what they hold cannot be used.
    """
    source = _module(config).load(config, trained=False) if config.source in _OF_OWN_DATA else load_source(config)
    if not isinstance(source, SourceImages):
        raise ConfigError(f"data.source is {config.source!r}, which holds rows; choose a source of images.")
    return source


def _module(config: DataConfig) -> Any:
    # Imported when used, so that one source never waits for the libraries of another.
    return import_module(f"mntrain.data.sources.{config.source.replace('-', '_')}")

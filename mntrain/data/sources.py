"""The registry of data sources, and the one function that turns a configuration into data.

A new source is one function ``load(config: DataConfig) -> SourceImages`` (or ``SourceTable``) in a module of its own,
and one entry here. Loaders are named as text and imported when used, so that choosing one never imports what only
another needs.
"""

from __future__ import annotations

import difflib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from mntrain.errors import ConfigError

if TYPE_CHECKING:
    from mntrain.data.config import DataConfig
    from mntrain.data.images import ImageData, SourceImages
    from mntrain.data.tables import SourceTable, TableData

__all__ = ["SOURCES", "Source", "find_source", "load_data", "load_images", "load_source"]

_OF_IMAGES = ("image_size", "color")
_OF_COLUMNS = ("image_column", "label_column", "subset", "test_split")


@dataclass(frozen=True, kw_only=True)
class Source:
    """One place that data comes from."""

    loader: str
    """``module:function`` that takes the configuration and returns the source's own splits."""
    path: Literal["none", "optional", "required"]
    """Whether ``DataConfig.path`` means anything here."""
    options: tuple[str, ...] = _OF_IMAGES
    """Fields of ``DataConfig`` that mean something here, of those that do not mean something everywhere."""
    rows: bool = False
    """Whether it holds rows of numbers, not images."""
    summary: str
    """What it is and what ``path`` stands for, for help texts and messages."""


SOURCES: Mapping[str, Source] = MappingProxyType(
    {
        "digits": Source(
            loader="mntrain.data.digits:load",
            path="none",
            summary="1,797 handwritten digits of 8x8 pixels that come with scikit-learn",
        ),
        "fashion-mnist": Source(
            loader="mntrain.data.idx:load_fashion_mnist",
            path="optional",
            summary="Fashion-MNIST; data.path is its folder of idx files",
        ),
        "idx": Source(
            loader="mntrain.data.idx:load",
            path="required",
            summary="any MNIST-like set; data.path is its folder of idx files",
        ),
        "datasets": Source(
            loader="mntrain.data.huggingface:load",
            path="required",
            options=(*_OF_IMAGES, *_OF_COLUMNS),
            summary="whatever Hugging Face datasets reads; data.path is a folder, a file or a hub name",
        ),
        "table": Source(
            loader="mntrain.data.table_files:load",
            path="required",
            options=("target_column", "target", "folds", "fold"),
            rows=True,
            summary="rows of numbers; data.path is a .csv or .parquet file, or a folder with one for each split",
        ),
        "spiral": Source(
            loader="mntrain.data.spiral:load",
            path="none",
            options=("rows", "noise", "turns"),
            rows=True,
            summary="two concentric spirals of points, made up",
        ),
    }
)


def find_source(name: str) -> Source:
    """The source registered as ``name``.

    Raises:
        ConfigError: no such source; the message proposes the closest names.
    """
    if name in SOURCES:
        return SOURCES[name]
    close = difflib.get_close_matches(str(name), SOURCES, n=2, cutoff=0.5)
    hint = f"did you mean {' or '.join(repr(match) for match in close)}? " if close else ""
    raise ConfigError(f"data.source is {name!r}, which is unknown; {hint}Choose one of: {', '.join(SOURCES)}.")


def load_data(config: DataConfig) -> ImageData | TableData:
    """Load the data that ``config`` names into memory, and split it.

    Raises:
        DataError: files are missing or corrupt, or what they hold cannot be used.
        ConfigError: a field of ``config`` does not fit the data.
    """
    from mntrain.data.images import SourceImages  # with NumPy, which a help text need not wait for
    from mntrain.data.split import split_images, split_table

    source = load_source(config)
    return split_images(source, config) if isinstance(source, SourceImages) else split_table(source, config)


def load_images(config: DataConfig) -> ImageData:
    """:func:`load_data` of a source of images.

    Raises:
        ConfigError: the source holds rows.
    """
    from mntrain.data.images import ImageData

    data = load_data(config)
    if not isinstance(data, ImageData):
        raise ConfigError(f"data.source is {config.source!r}, which holds rows; choose a source of images.")
    return data


def load_source(config: DataConfig) -> SourceImages | SourceTable:
    """What the source of ``config`` holds, before anything is split off.

    Raises: as :func:`load_data`.
    """
    loaded: SourceImages | SourceTable = pkgutil.resolve_name(find_source(config.source).loader)(config)
    return loaded

"""The registry of data sources: their names, and the fields of ``DataConfig`` that they use.

A new source is an entry here and a module of ``mntrain.data.sources`` with a function
``load(config: DataConfig) -> SourceImages`` (or ``SourceTable``). The module is called like the source, with ``_`` for
``-``. Nothing is imported here, so that configurations are checked before any library of a source is loaded.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from mntrain.errors import ConfigError

_OF_IMAGES = ("image_size", "image_fit", "color", "classes")
_OF_LABELLED = ("image_column", "label_column", "split_column", "test_split", "nested")


@dataclass(frozen=True, kw_only=True)
class Source:
    """One place that data comes from."""

    path: Literal["none", "optional", "required"]
    """Use of ``DataConfig.path``."""
    options: tuple[str, ...] = _OF_IMAGES
    """Fields of ``DataConfig`` that this source uses, of those that not every source uses."""
    rows: bool = False
    """True for rows of numbers, False for images."""
    summary: str
    """Contents, and the meaning of ``path``, for help texts and messages."""


SOURCES: Mapping[str, Source] = MappingProxyType(
    {
        "digits": Source(
            path="none",
            summary="1,797 handwritten digits of 8x8 pixels that come with scikit-learn",
        ),
        "fashion-mnist": Source(
            path="optional",
            summary="Fashion-MNIST; data.path is its folder of idx files",
        ),
        "idx": Source(
            path="required",
            summary="any MNIST-like set; data.path is its folder of idx files",
        ),
        "images": Source(
            path="required",
            options=(*_OF_IMAGES, *_OF_LABELLED),
            summary="your own images; data.path is a folder of class folders, or a table of images or of paths",
        ),
        "image-lists": Source(
            path="required",
            options=(*_OF_IMAGES, "lists", "class_names", "missing_images"),
            summary="images that text files list, as for ImageNet-LT; data.path is the folder that their paths are in",
        ),
        "datasets": Source(
            path="required",
            options=(*_OF_IMAGES, *_OF_LABELLED, "subset"),
            summary="the Hugging Face hub; data.path is a name there, or anything that the source images reads",
        ),
        "table": Source(
            path="required",
            options=(
                "split_column",
                "target_column",
                "target",
                "exclude_columns",
                "category_columns",
                "missing",
                "folds",
                "fold",
            ),
            rows=True,
            summary="rows of numbers and categories; data.path is a .csv, .tsv or .parquet file, or a folder of them",
        ),
        "features": Source(
            path="required",
            options=(),
            rows=True,
            summary="features of a frozen network; data.path is a feature store that `mntrain features` wrote",
        ),
        "spiral": Source(
            path="none",
            options=("rows", "noise", "turns"),
            rows=True,
            summary="two concentric spirals of points, made up",
        ),
    }
)


def find_source(name: str) -> Source:
    """Return the source registered as ``name``.

    Raises:
        ConfigError: no such source; the message proposes the closest names.
    """
    if name in SOURCES:
        return SOURCES[name]
    close = difflib.get_close_matches(str(name), SOURCES, n=2, cutoff=0.5)
    hint = f"did you mean {' or '.join(repr(match) for match in close)}? " if close else ""
    raise ConfigError(f"data.source is {name!r}, which is unknown; {hint}Choose one of: {', '.join(SOURCES)}.")

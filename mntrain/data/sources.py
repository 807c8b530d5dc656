"""The registry of data sources, and the one function that turns a configuration into images.

A new source is one function ``load(config: DataConfig) -> SourceImages`` in a module of its own, and one
entry here. Loaders are named as text and imported when used, so that choosing one never imports what only
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

__all__ = ["SOURCES", "Source", "find_source", "load_images", "load_source"]


@dataclass(frozen=True, kw_only=True)
class Source:
    """One place that images come from."""

    loader: str
    """``module:function`` that takes the configuration and returns the source's own splits."""
    path: Literal["none", "optional", "required"]
    """Whether ``DataConfig.path`` means anything here."""
    columns: bool = False
    """Whether the source has named columns."""
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
            columns=True,
            summary="whatever Hugging Face datasets reads; data.path is a folder, a file or a hub name",
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


def load_images(config: DataConfig) -> ImageData:
    """Load the images that ``config`` names into memory, and split them.

    Raises:
        DataError: files are missing or corrupt, or the images or labels cannot be used.
        ConfigError: a field of ``config`` does not fit the data.
    """
    from mntrain.data.split import split_images  # pulls in scikit-learn, which a help text need not wait for

    return split_images(load_source(config), config)


def load_source(config: DataConfig) -> SourceImages:
    """What the source of ``config`` holds, before anything is split off.

    Raises: as :func:`load_images`.
    """
    loaded: SourceImages = pkgutil.resolve_name(find_source(config.source).loader)(config)
    return loaded

"""Rows of encoded images with their columns, wherever they are stored; images are read a block at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from mntrain.data.examples import IndexArray
from mntrain.data.hugging_face import datasets

BLOCK = 256
"""Images that are read at a time."""

EncodedImage = Mapping[str, Any]
"""``{"bytes": encoded or None, "path": of a file or None}``."""


class ImageRows(Protocol):
    """Rows of one file, folder or split."""

    @property
    def name(self) -> str:
        """For messages, such as ``'k/train.parquet'``."""

    @property
    def features(self) -> Mapping[str, Any]:
        """Columns, as ``datasets`` describes them."""

    @property
    def local(self) -> bool:
        """Paths of images are files here, never addresses."""

    def __len__(self) -> int: ...

    def column(self, name: str) -> pa.ChunkedArray:
        """Return the values of a column, one for each row."""

    def images(self, name: str) -> Iterator[list[EncodedImage | None]]:
        """Return the images of a column, a block at a time."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MemoryRows:
    """Rows of a table in memory; paths of images are taken from ``base``."""

    name: str
    table: pa.Table
    base: Path
    features: Mapping[str, Any]
    local: bool = True

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def column(self, name: str) -> pa.ChunkedArray:
        """Return the values of a column."""
        return self.table.column(name)

    def images(self, name: str) -> Iterator[list[EncodedImage | None]]:
        """Return the images of a column."""
        column = self.table.column(name)
        for start in range(0, len(column), BLOCK):
            yield as_encoded(column.slice(start, BLOCK), self.base)


@dataclass(frozen=True, kw_only=True, eq=False)
class DatasetRows:
    """Rows of a data set of the hub or of one that ``save_to_disk`` has written."""

    name: str
    dataset: datasets.Dataset
    base: Path
    local: bool

    @property
    def features(self) -> Mapping[str, Any]:
        """Columns of the data set."""
        found: Mapping[str, Any] = self.dataset.features
        return found

    def __len__(self) -> int:
        return int(self.dataset.num_rows)

    def column(self, name: str) -> pa.ChunkedArray:
        """Return the values of a column."""
        return self.dataset.select_columns([name]).with_format("arrow")[:].column(name)

    def images(self, name: str) -> Iterator[list[EncodedImage | None]]:
        """Return the images of a column."""
        encoded = self.dataset.select_columns([name]).with_format("arrow")
        for start in range(0, len(encoded), BLOCK):
            yield as_encoded(encoded[start : start + BLOCK].column(name), self.base)


@dataclass(frozen=True, kw_only=True, eq=False)
class SomeRows:
    """The rows of ``whole`` at ``positions`` (int64 [M], ascending)."""

    whole: ImageRows
    positions: IndexArray

    @property
    def name(self) -> str:
        """Name of the whole."""
        return self.whole.name

    @property
    def features(self) -> Mapping[str, Any]:
        """Columns of the whole."""
        return self.whole.features

    @property
    def local(self) -> bool:
        """As of the whole."""
        return self.whole.local

    def __len__(self) -> int:
        return len(self.positions)

    def column(self, name: str) -> pa.ChunkedArray:
        """Return the chosen values of a column."""
        return self.whole.column(name).take(pa.array(self.positions))

    def images(self, name: str) -> Iterator[list[EncodedImage | None]]:
        """Return the chosen images of a column."""
        start = 0
        for block in self.whole.images(name):
            low, high = np.searchsorted(self.positions, [start, start + len(block)])
            yield [block[position - start] for position in self.positions[low:high]]
            start += len(block)


def as_encoded(column: pa.ChunkedArray | pa.Array, base: Path) -> list[EncodedImage | None]:
    """Turn bytes, paths, or ``{bytes, path}`` into encoded images; relative paths are taken from ``base``."""
    return [_encoded(value, base) for value in column.to_pylist()]


def _encoded(value: Any, base: Path) -> EncodedImage | None:
    if value is None:
        return None
    if isinstance(value, bytes):
        return {"bytes": value, "path": None}
    if isinstance(value, str):
        return {"bytes": None, "path": _full_path(value, base)}
    content, path = value["bytes"], value["path"]
    # With bytes, the path is a name alone; without, it is where the file lies.
    if content is None and path is not None and "://" not in path:
        path = str(base / path)
    return {"bytes": content, "path": path}


def _full_path(path: str, base: Path) -> str:
    full = str(base / path)
    # Tables from Windows part folders by backslashes, which are letters of a name elsewhere.
    if "\\" in path and not os.path.lexists(full):
        return str(base / path.replace("\\", "/"))
    return full


def count(parts: Sequence[ImageRows]) -> int:
    """Return the number of rows of all parts."""
    return sum(len(part) for part in parts)

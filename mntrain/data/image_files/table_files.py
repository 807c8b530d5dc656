"""Read tables of images or of paths to images straight from their files, without a cache that could be stale."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

from mntrain.data.hugging_face import datasets
from mntrain.data.image_files.formats import TABLE_SUFFIXES, is_picture
from mntrain.data.image_files.rows import BLOCK, EncodedImage, ImageRows, MemoryRows, as_encoded
from mntrain.data.labels import listing
from mntrain.data.reading.table_text import check_unique
from mntrain.errors import ConfigError, DataError
from mntrain.regular_files import regular

_BUFFER = 4 * 1024 * 1024
_DELIMITERS = ",;\t|"
# Of what pyarrow, datasets, json and csv raise on damaged files.
_DAMAGED = (
    pa.ArrowException, OSError, UnicodeDecodeError, ValueError, KeyError, TypeError, csv.Error, RecursionError,
    OverflowError,
)  # fmt: skip


def open_table(file: Path) -> ImageRows:
    """Open a table by the suffix of its file.

    Raises:
        ConfigError: the suffix is of no table.
        DataError: the file cannot be read.
    """
    suffix = file.suffix.lower()
    if suffix not in TABLE_SUFFIXES:
        raise ConfigError(
            f"data.path is '{file}', a file of unknown kind '{file.suffix}'; use {', '.join(TABLE_SUFFIXES)}, or a "
            "folder."
        )
    with readable(file):
        regular(file)
        if suffix in (".parquet", ".arrow"):
            rows = FileRows(file=file)
            check_unique(rows.schema.names, file)
            return rows
        table = _read_json(file) if suffix in (".json", ".jsonl") else _read_csv(file)
        features = datasets.Features.from_arrow_schema(table.schema)
    return MemoryRows(name=f"'{file}'", table=table, base=file.parent, features=features)


@dataclass(frozen=True, kw_only=True)
class FileRows:
    """Rows of a parquet or arrow file, which is read a block at a time."""

    file: Path
    local: bool = True

    @property
    def name(self) -> str:
        """The file, for messages."""
        return f"'{self.file}'"

    @cached_property
    def schema(self) -> pa.Schema:
        """Columns as the file has them."""
        if self._parquet:
            return pyarrow.parquet.read_schema(self.file)
        with _open_arrow(self.file) as reader:
            return reader.schema

    @cached_property
    def features(self) -> Mapping[str, Any]:
        """Columns, with the names of classes where the file has them; of kinds that ``datasets`` lacks, arrow's own."""
        with readable(self.file):
            return {field.name: _feature(field, self.schema.metadata) for field in self.schema}

    @cached_property
    def _rows(self) -> int:
        with readable(self.file):
            if self._parquet:
                return int(pyarrow.parquet.read_metadata(self.file).num_rows)
            return sum(batch.num_rows for batch in self._batches(self.schema.names[:1]))

    @property
    def _parquet(self) -> bool:
        return self.file.suffix.lower() == ".parquet"

    def __len__(self) -> int:
        return self._rows

    def column(self, name: str) -> pa.ChunkedArray:
        """Return the values of a column."""
        with readable(self.file):
            batches = [batch.column(0) for batch in self._batches([name])]
            kind = self.schema.field(name).type
            column = pa.chunked_array(batches, type=kind)
            # Arrow takes no rows out of a column of views.
            return column.cast(pa.large_string()) if pa.types.is_string_view(kind) else column

    def images(self, name: str) -> Iterator[list[EncodedImage | None]]:
        """Return the images of a column."""
        with readable(self.file):
            for batch in self._batches([name]):
                for start in range(0, batch.num_rows, BLOCK):
                    yield as_encoded(batch.column(0).slice(start, BLOCK), self.file.parent)

    def _batches(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        if self._parquet:
            # With a buffer, a row group is read bit by bit; a file may hold all its images in one.
            with pyarrow.parquet.ParquetFile(self.file, buffer_size=_BUFFER) as opened:
                yield from opened.iter_batches(batch_size=BLOCK, columns=names)
            return
        with _open_arrow(self.file) as reader:
            for batch in reader:
                yield batch.select(names)


@contextmanager
def readable(file: Path) -> Iterator[None]:
    """Turn the errors of a damaged file into one that names it."""
    try:
        yield
    except _DAMAGED as error:
        reason = (str(error).strip().splitlines() or [""])[0].rstrip(".")
        raise DataError(
            f"'{file}' cannot be read ({type(error).__name__}: {reason}); it may be damaged, empty, or of another "
            "kind than its name says."
        ) from error


def _feature(field: pa.Field, metadata: Mapping[bytes, bytes] | None) -> Any:
    try:
        return datasets.Features.from_arrow_schema(pa.schema([field], metadata=metadata))[field.name]
    except (ValueError, NotImplementedError):
        return field.type


@contextmanager
def _open_arrow(file: Path) -> Iterator[Any]:
    """Open either kind of arrow file; ``datasets`` writes streams, others files with an index."""
    with pa.memory_map(str(file)) as mapped:
        try:
            indexed = pyarrow.ipc.open_file(mapped)
        except pa.ArrowInvalid:
            mapped.seek(0)
            yield pyarrow.ipc.open_stream(mapped)
        else:
            yield _Indexed(indexed)


class _Indexed:
    """Batches of an arrow file with an index, as a stream has them."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self.schema = reader.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for number in range(self._reader.num_record_batches):
            yield self._reader.get_batch(number)


def _read_json(file: Path) -> pa.Table:
    """Read a list of objects, or an object a line; a single object is no table."""
    text = regular(file).read_text("utf-8-sig")
    if text.lstrip().startswith("["):
        rows = json.loads(text)
    else:
        rows = [json.loads(line) for line in text.split("\n") if line.strip()]
    if not all(isinstance(row, dict) for row in rows) or (len(rows) == 1 and file.suffix.lower() == ".json"):
        raise ValueError("it must hold objects with the names of columns, in a list or one a line")
    # Names from all rows, since pyarrow asks the first alone.
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pa.table({name: pa.array([row.get(name) for row in rows]) for name in names})


def _read_csv(file: Path) -> pa.Table:
    """Read text columns; those of whole numbers alone become numbers, and empty cells are missing."""
    text = regular(file).read_text("utf-8-sig")
    first = text.split("\n", 1)[0]
    delimiter = "\t" if file.suffix.lower() == ".tsv" else max(_DELIMITERS, key=first.count)
    lines = [line for line in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True) if line]
    if not lines:
        raise ValueError("it holds no line")
    names = [name.strip() for name in lines[0]]
    check_unique(names, file)
    if any(map(is_picture, names)):
        raise DataError(
            f"The first line of '{file}' holds a path of an image ({listing(names)}); it must hold the names of the "
            "columns, such as path,label, so put them above."
        )
    uneven = next((number for number, line in enumerate(lines, 1) if len(line) != len(names)), None)
    if uneven is not None:
        raise ValueError(f"line {uneven} has {len(lines[uneven - 1])} cells, the first has {len(names)}")
    return pa.table({name: _typed([line[place].strip() for line in lines[1:]]) for place, name in enumerate(names)})


def _typed(cells: list[str]) -> pa.Array:
    # "007" stays a text, since the number would have another name, and one beyond int64, since it would not fit.
    if cells and all(map(_is_whole, filter(None, cells))):
        return pa.array([int(cell) if cell else None for cell in cells], pa.int64())
    return pa.array([cell if cell else None for cell in cells], pa.string())


def _is_whole(cell: str) -> bool:
    digits = cell.removeprefix("-")
    return digits.isdecimal() and len(digits) < 19 and cell == str(int(cell))

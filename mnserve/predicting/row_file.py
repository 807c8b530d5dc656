"""Tables of text: rows of named columns from .csv and .tsv files, packed or not.

The separator is the one of comma, semicolon and tab with which the first line has the columns that are needed. Quoting
is that of CSV; empty lines are no rows, as in training.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mnserve.errors import RowFileError
from mnserve.text.names import listed

_SEPARATORS: Final = (",", ";", "\t")
_GZIP: Final = b"\x1f\x8b"
_KINDS: Final = {b"PAR1": "a parquet file", b"PK\x03\x04": "a workbook or an archive"}
_REMEDY: Final = "save it as a table of text, such as rows.csv"


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """Cells of one row.

    Attributes:
        number: Number of the row in its file, from 1, without the line of names.
        cells: Texts as they stand in the file.
        fault: Reason why it is no row of this table; empty where it is one.
    """

    number: int
    cells: tuple[str, ...]
    fault: str = ""


@dataclass(frozen=True, kw_only=True)
class TableText:
    """A table in memory.

    Attributes:
        name: Name of the table, for messages.
        text: Its lines.
    """

    name: str
    text: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, kw_only=True)
class RowFile:
    """An open table.

    Attributes:
        source: The file, or the table in memory.
        header: Cells of its first line.
        columns: Names of its columns: those cells without blanks around them, and "Unnamed: 3" for an empty one, as in
            training.
        separator: Between its cells.
        rows: All rows; a fault of the file itself is raised as a RowFileError where it is met.
    """

    source: Path | TableText
    header: tuple[str, ...]
    columns: tuple[str, ...]
    separator: str
    rows: Iterator[TableRow]

    @property
    def name(self) -> str:
        """Name of the file."""
        return str(self.source)

    def positions(self, names: Sequence[str]) -> tuple[int, ...]:
        """Finds columns by their names.

        Raises:
            RowFileError: Some are not there, or are there twice; all of them are named.
        """
        for fault, wrong in (
            ("has no", [name for name in names if name not in self.columns]),
            ("has several columns", [name for name in names if self.columns.count(name) > 1]),
        ):
            if wrong:
                there = listed(list(map(repr, self.columns)))
                raise RowFileError(
                    f"{self.name}: the table {fault} {', '.join(map(repr, wrong))}; the model needs each of its "
                    f"columns once, and the first line has {there}"
                )
        return tuple(self.columns.index(name) for name in names)


@contextmanager
def open_rows(path: Path | TableText, needed: Sequence[str]) -> Iterator[RowFile]:
    """Opens a table.

    Args:
        path: The file, or a table in memory.
        needed: Names of columns by which the separator is told.

    Raises:
        RowFileError: There is no such file, it is of another kind, or has no line of names.
    """
    with _open(path) as stream:
        try:
            first = next((line for line in stream if line.strip()), "")
            separator = max(_SEPARATORS, key=lambda mark: _found(first, mark, needed))
        except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
            raise _unreadable(path, error) from error
        if not first:
            raise RowFileError(f"{path}: the file is empty; its first line has to name the columns")
        reader = csv.reader(itertools.chain([first], stream), delimiter=separator, strict=True)
        records = _records(path, reader)
        header = tuple(next(records, ()))
        yield RowFile(
            source=path,
            header=header,
            columns=tuple(name.strip() or f"Unnamed: {place}" for place, name in enumerate(header)),
            separator=separator,
            rows=_rows(records, len(header)),
        )


def _found(line: str, separator: str, needed: Sequence[str]) -> tuple[int, int]:
    names = [name.strip() for name in next(csv.reader([line], delimiter=separator), [])]
    return sum(name in names for name in needed), len(names)


def _rows(records: Iterator[list[str]], width: int) -> Iterator[TableRow]:
    for number, cells in enumerate(records, start=1):
        fault = "" if len(cells) == width else f"it has {len(cells)} cells, but the first line names {width} columns"
        yield TableRow(number=number, cells=tuple(cells), fault=fault)


def _records(path: Path | TableText, reader: Iterator[list[str]]) -> Iterator[list[str]]:
    try:
        yield from (cells for cells in reader if cells)
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise _unreadable(path, error) from error


@contextmanager
def _open(path: Path | TableText) -> Iterator[io.TextIOBase]:
    if isinstance(path, TableText):
        yield io.StringIO(path.text.removeprefix("\ufeff"), newline="")
        return
    if os.path.isdir(path):
        raise RowFileError(f"{path}: this is a folder; name the tables in it")
    if not os.path.exists(path):
        raise RowFileError(f"{path}: no such file; check the name")
    if not os.path.isfile(path):  # opening a pipe would block until a writer opens it
        raise RowFileError(f"{path}: this is a pipe, a socket or a device, not a file; copy the table to a file")
    try:
        with path.open("rb") as raw:
            start = raw.read(4)
            raw.seek(0)
            if start in _KINDS:
                raise RowFileError(f"{path}: this is {_KINDS[start]}, which is not read here; {_REMEDY}")
            binary = gzip.GzipFile(fileobj=raw) if start.startswith(_GZIP) else raw
            with io.TextIOWrapper(binary, encoding="utf-8-sig", newline="") as stream:
                yield stream
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path | TableText, error: Exception) -> RowFileError:
    if isinstance(error, UnicodeDecodeError):
        return RowFileError(f"{path}: the file is not text in UTF-8; {_REMEDY} in UTF-8")
    reason = getattr(error, "strerror", None) or str(error)
    return RowFileError(f"{path}: the table cannot be read any further ({reason}); correct or write it again")

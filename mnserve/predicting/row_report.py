"""Reports of predicted tables: the table itself with further columns, or JSON."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from typing import Protocol, TextIO

from mnserve.errors import RowFileError
from mnserve.predicting.row_file import RowFile
from mnserve.predicting.row_predictor import RowOutcome
from mnserve.text.names import listed, printable


class RowReport(Protocol):
    """Writes outcomes as they come, table by table."""

    def begin(self, file: RowFile) -> None:
        """Begins a table."""
        ...

    def add(self, outcome: RowOutcome) -> None:
        """Adds a row of the table that was begun."""
        ...

    def end(self) -> None:
        """Ends the report after the last table."""
        ...


class TableReport:
    """Writes every row as it was read, with the columns of its answer; a row without an answer has them empty.

    Args:
        stream: Where it is written.
        columns: Names of the columns that are added.
        on_terminal: Write control characters as escapes, so that no cell steers the terminal.
    """

    def __init__(self, stream: TextIO, columns: Sequence[str], on_terminal: bool = False) -> None:
        self._stream = stream
        self._columns = tuple(columns)
        self._on_terminal = on_terminal
        self._first: RowFile | None = None

    def begin(self, file: RowFile) -> None:
        """Begins a table; the first one gives the separator and the line of names.

        Raises:
            RowFileError: The table has other columns than the first one, or columns like those that are added.
        """
        clashes = [name for name in self._columns if name in file.columns]
        if clashes:
            raise RowFileError(
                f"{file.name}: the table has the columns {listed(clashes)} already, which are to be added; rename "
                "them, or take --json"
            )
        if self._first is None:
            self._first = file
            self._writer = csv.writer(self._stream, delimiter=file.separator, lineterminator="\n")
            self._write([*file.header, *self._columns])
        elif file.columns != self._first.columns:
            raise RowFileError(
                f"{file.name}: the table has other columns than {self._first.name}, and one table is written; predict "
                "them one by one, or take --json"
            )

    def add(self, outcome: RowOutcome) -> None:
        """Writes a row."""
        assert self._first is not None
        cells = [*outcome.row.cells]
        added = [""] * len(self._columns) if outcome.answer is None else outcome.answer.cells()
        missing = len(self._first.columns) - len(cells)
        self._write([*cells, *[""] * missing, *added])

    def end(self) -> None:
        """Does nothing: every row is written already."""

    def _write(self, cells: Sequence[str]) -> None:
        self._writer.writerow([printable(cell) for cell in cells] if self._on_terminal else cells)


class JsonReport:
    """Writes a JSON list with one object a row: file, number, cells, and answer or error."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._file: RowFile | None = None
        self._separator = "["

    def begin(self, file: RowFile) -> None:
        """Begins a table."""
        self._file = file

    def add(self, outcome: RowOutcome) -> None:
        """Writes a row."""
        assert self._file is not None
        plain = {
            "file": self._file.name,
            "row": outcome.row.number,
            "cells": dict(zip(self._file.columns, outcome.row.cells, strict=False)),
            **({"error": outcome.reason} if outcome.answer is None else outcome.answer.to_json()),
        }
        self._stream.write(f"{self._separator}\n  {json.dumps(plain)}")
        self._separator = ","

    def end(self) -> None:
        """Ends the list."""
        self._stream.write("[]\n" if self._separator == "[" else "\n]\n")

"""Rows as Python programs hold them, brought to the inputs of a model.

Shapes: B rows, F columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mnserve.codec.datatypes import DATATYPES
from mnserve.errors import RowError
from mnserve.predicting.python_inputs import is_array
from mnserve.predicting.row_file import RowFile, TableRow
from mnserve.predicting.row_values import LARGEST, RowReader, RowValues, encode
from mnserve.repository.row_layout import TableLayout
from mnserve.text.names import listed

_NO_ROWS: Final = "there are no rows to predict; give an array [B, F], or a list of mappings from column to value"


@dataclass(frozen=True, kw_only=True)
class RowBatch:
    """Inputs of a model for some rows.

    Attributes:
        feeds: Name of an input -> array [rows, columns].
        rows: Number of rows.
    """

    feeds: Mapping[str, NDArray[Any]]
    rows: int


def row_batches(rows: Any, layout: TableLayout, size: int) -> tuple[list[RowBatch], tuple[str, ...]]:
    """Reads rows for a model, in batches.

    Args:
        rows: Array of numbers [B, F] in the order of the model's columns, for a model without categories; or a sequence
            of mappings from column to value, None for a missing one.
        layout: Columns of the model.
        size: Most rows in a batch.

    Returns:
        Batches, and sentences about categories that the model does not know.

    Raises:
        RowError: There is no row, or one cannot be used; the message has its number, from 1.
    """
    if is_array(rows):
        return _array_batches(np.asarray(rows), layout, size), ()
    if isinstance(rows, Mapping) or not len(rows):
        raise RowError(_NO_ROWS)
    reader = _reader(layout)
    read = [_read(row, number, layout.columns, reader) for number, row in enumerate(rows, start=1)]
    parts = [read[start : start + size] for start in range(0, len(read), size)]
    return [RowBatch(feeds=encode(layout, part), rows=len(part)) for part in parts], reader.notes


def _array_batches(array: NDArray[Any], layout: TableLayout, size: int) -> list[RowBatch]:
    if layout.categories:
        raise RowError(
            f"the model takes categories ({listed(list(layout.categories))}), which an array of numbers does not name; "
            "give a list of mappings from column to value"
        )
    if array.ndim != 2 or array.shape[1] != len(layout.numbers) or array.dtype.kind not in "biuf":
        raise RowError(
            f"the rows are an array of {array.dtype} {list(array.shape)}; the model takes numbers of shape "
            f"[B, {len(layout.numbers)}]"
        )
    if not len(array):
        raise RowError(_NO_ROWS)
    assert layout.number_input is not None
    name, dtype = layout.number_input.name, DATATYPES[layout.number_input.datatype].dtype
    batches = []
    for start in range(0, len(array), size):
        part = array[start : start + size]
        _check(part, start + 1, layout)
        batches.append(RowBatch(feeds={name: part.astype(dtype)}, rows=len(part)))
    return batches


def _check(rows: NDArray[Any], first: int, layout: TableLayout) -> None:
    """Refuses numbers that a row of a file may not have either, in the same words."""
    usable = np.abs(rows.astype(np.float64)) <= LARGEST
    if layout.fills_in:
        usable |= np.isnan(rows)
    unusable = np.flatnonzero(~usable.all(axis=1))
    if unusable.size:
        row = int(unusable[0])
        _read(dict(zip(layout.numbers, rows[row].tolist(), strict=True)), first + row, layout.columns, _reader(layout))


def _read(row: Any, number: int, columns: Sequence[str], reader: RowReader) -> RowValues:
    if not isinstance(row, Mapping):
        raise RowError(f"row {number} is {type(row).__name__}; give a mapping from column to value")
    missing = [name for name in columns if name not in row]
    if missing:
        needed = listed(list(map(repr, columns)))
        raise RowError(f"row {number} has no {listed(list(map(repr, missing)))}; the model needs {needed}")
    cells = tuple("" if row[name] is None else str(row[name]) for name in columns)
    try:
        return reader.read(TableRow(number=number, cells=cells))
    except RowError as error:
        raise RowError(f"row {number}: {error}") from error


def _reader(layout: TableLayout) -> RowReader:
    columns = layout.columns
    file = RowFile(source=Path("rows"), header=columns, columns=columns, separator=",", rows=iter(()))
    return RowReader(layout, file)

"""Columns that number the rows, as programs add them to a file; none of them is a feature.

Such a column often tells the class: rows of a file that was shuffled carry the places that they had before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from mntrain.errors import DataError

_PANDAS_INDEX = re.compile(r"__index_level_\d+__")
_UNNAMED = re.compile(r"(Unnamed: \d+(\.\d+)*)?")
_ROW_NUMBER = re.compile(r"#|(.*[\W_])?(id|index|idx|row|no|nr|num|number)", re.IGNORECASE)
_FRAME_INDICES = ("index", "level_0")
_CAMEL_ID = re.compile(r".*[a-z](Id|ID)")


def has_index_name(name: str) -> bool:
    """Tell by its name alone if a column is the index that pandas writes."""
    return bool(_UNNAMED.fullmatch(name) or _PANDAS_INDEX.fullmatch(name))


def index_columns(tables: Sequence[pa.Table], names: Sequence[str], *, where: str) -> dict[str, str]:
    """Find the columns that number the rows.

    Args:
        tables: the splits.
        names: columns that may be features.
        where: the file or folder, for messages.

    Returns:
        Column → why it is no feature.

    Raises:
        DataError: a column without a name holds values, and is not the first.
    """
    indices = _stored_indices([table.schema for table in tables])
    found: dict[str, str] = {}
    for name in names:
        holders = [table for table in tables if name in table.column_names]
        unnamed = _UNNAMED.fullmatch(name) is not None
        columns = [table.column(name) for table in holders]
        reason = _unnamed_reason(name, holders, where) if unnamed else _index_reason(name, columns)
        if name in indices:
            reason = "the index of a data frame"
        if reason is not None:
            found[name] = reason
    return found


def may_number_rows(schema: pa.Schema, name: str) -> bool:
    """Tell by a schema if the values of a column are needed to tell whether it numbers the rows."""
    return bool(
        has_index_name(name)
        or name in _stored_indices([schema])
        or name.lower() in _FRAME_INDICES
        or _ROW_NUMBER.fullmatch(name)
        or _CAMEL_ID.fullmatch(name)
    )


def _stored_indices(schemas: Sequence[pa.Schema]) -> set[str]:
    """Return the columns that pandas noted down as indices where it wrote a parquet file."""
    noted = [(schema.pandas_metadata or {}).get("index_columns", []) for schema in schemas]
    return {name for names in noted for name in names if isinstance(name, str)}


def _index_reason(name: str, columns: Sequence[pa.ChunkedArray]) -> str | None:
    """Tell why a column that a program has added is no feature; None for all others."""
    if _PANDAS_INDEX.fullmatch(name):
        return "the index of a data frame"
    if name.lower() in _FRAME_INDICES and all(_is_frame_index(column) for column in columns):
        return "the index of a data frame"
    is_index = _ROW_NUMBER.fullmatch(name) or _CAMEL_ID.fullmatch(name)
    return "numbers the rows" if is_index and all(counts_rows(column) for column in columns) else None


def _unnamed_reason(name: str, holders: Sequence[pa.Table], where: str) -> str:
    """Tell why a column without a name is left out.

    Raises:
        DataError: it holds values, and is not the first column, where programs write an index.
    """
    if all(table.column(name).null_count == len(table) for table in holders):
        return "without a name and a value"
    if all(table.column_names.index(name) == 0 for table in holders):
        return "without a name: the index of a data frame"
    raise DataError(
        f"{where} has a column without a name ('{name}', counted from 0); give it one, or leave it out with "
        "data.exclude_columns."
    )


def counts_rows(column: pa.ChunkedArray) -> bool:
    """Tell if a column goes up by one from row to row, whatever it starts with."""
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)) or column.null_count:
        return False
    values = column.to_numpy()
    return len(values) > 1 and bool(np.isfinite(values).all()) and bool((np.diff(values) == 1).all())


def _is_frame_index(column: pa.ChunkedArray) -> bool:
    """Tell if whole numbers differ in every row, or count from 0 anew, as the indices of joined frames do."""
    if not pa.types.is_integer(column.type) or column.null_count:
        return False
    values = column.to_numpy()
    counts = values[0] == 0 and bool(((np.diff(values) == 1) | (values[1:] == 0)).all())
    return _all_differ(column) or counts


def _all_differ(column: pa.ChunkedArray) -> bool:
    return not column.null_count and len(column.unique()) == len(column)

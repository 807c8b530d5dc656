"""Read one file of rows, whatever its format."""

from __future__ import annotations

import zlib
from collections.abc import Collection
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from mntrain.data.labels import listing
from mntrain.data.reading.table_files import ending_of
from mntrain.data.reading.table_text import TextTable, check_unique, read_text_table, trimmed
from mntrain.errors import DataError
from mntrain.regular_files import regular


def read_table(file: Path, texts: Collection[str] = ()) -> TextTable:
    """Read a text or parquet file with names of columns and at least one row.

    Args:
        file: of one of the endings of :mod:`mntrain.data.reading.table_files`.
        texts: columns of a text file that are read as texts, whatever they hold.

    Raises:
        DataError: the file cannot be read, is empty, or has no names of columns.
    """
    is_text = ending_of(file) != ".parquet"
    try:
        read = read_text_table(file, texts) if is_text else _read_parquet(file)
    # UnicodeDecodeError: names that are not UTF-8 text.
    except (pa.ArrowException, OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise DataError(
            f"'{file}' cannot be read as a table ({reason}); it may be empty, damaged, or of another kind than its "
            "name says."
        ) from error
    table = read.table
    if table.num_rows == 0 or table.num_columns == 0:
        raise DataError(f"'{file}' holds no rows; every file needs at least one row below the line of column names.")
    if is_text and all(is_number(name) for name in table.column_names):
        raise DataError(
            f"The first line of '{file}' holds numbers ({listing(table.column_names)}); it must hold the names of the "
            "columns, so put them above."
        )
    return read


def is_number(text: str) -> bool:
    """Tell if a text can be read as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read_parquet(file: Path) -> TextTable:
    table = pyarrow.parquet.ParquetFile(regular(file)).read()
    check_unique(table.column_names, file)
    # Parquet keeps only texts by number; pandas notes down which whole numbers are categories.
    noted = (table.schema.pandas_metadata or {}).get("columns", [])
    for name in (entry.get("name") for entry in noted if entry.get("pandas_type") == "categorical"):
        if name in table.column_names and pa.types.is_integer(table.column(name).type):
            table = table.set_column(table.column_names.index(name), name, table.column(name).dictionary_encode())
    # What is missing or blank in a text file is so here, too: the exported graph does not know the file.
    for place, name in enumerate(table.column_names):
        table = table.set_column(place, name, trimmed(table.column(name)))
    return TextTable(table=table, layout="parquet")

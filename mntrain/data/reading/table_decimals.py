"""Numbers among the texts of a table: decimal commas, and numbers beside spellings of a missing value."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mntrain.data.labels import listing
from mntrain.errors import DataError

_POINT = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_COMMA = r"^[+-]?(\d+,?\d*|,\d+)([eE][+-]?\d+)?$"
# One comma before three digits may be a decimal mark or part thousands; 0,125 and 12,5 are decimal.
_THOUSANDS = r"^[+-]?([1-9]\d{0,2}(,\d{3})+|\d+)$"
# Spellings that are missing values among numbers, and may be names among texts.
_MISSING_NUMBERS = ("?", "None", "none")


def with_numbers(table: pa.Table, *, keep: Collection[str], delimiter: str, where: str) -> tuple[pa.Table, str]:
    """Turn columns of texts that are all numbers into float64; returns the table and its decimal mark.

    Args:
        table: texts without blanks around them.
        keep: columns that stay texts.
        delimiter: of the file; where it is the comma, no comma is a decimal mark.
        where: the file, for messages.

    Raises:
        DataError: commas may be decimal marks or part thousands, or some columns have points and others commas.
    """
    texts = {
        name: _without(table.column(name), _MISSING_NUMBERS)
        for name in table.column_names
        if name not in keep and pa.types.is_string(table.column(name).type)
    }
    points = {name: column for name, column in texts.items() if _all(column, _POINT)}
    commas = {name: column for name, column in texts.items() if delimiter != "," and name not in points}
    commas = {name: column for name, column in commas.items() if _all(column, _COMMA)}
    if commas:
        _check_decimal_commas(table, list(commas), points, where)
    for name, column in points.items():
        table = _replaced(table, name, column)
    for name, column in commas.items():
        table = _replaced(table, name, pc.replace_substring(column, ",", "."))
    return table, "," if commas else "."


def _check_decimal_commas(
    table: pa.Table, commas: list[str], points: Mapping[str, pa.ChunkedArray], where: str
) -> None:
    fractional = [
        f"'{name}'"
        for name in table.column_names
        if (name in points and _any(points[name], "."))
        or (pa.types.is_floating(table.column(name).type) and _has_fractions(table.column(name)))
    ]
    listed = listing([f"'{name}' ({table.column(name).drop_null()[0].as_py()})" for name in commas])
    if fractional:
        raise DataError(
            f"{where} has numbers with commas in {listed} and with points in {listing(fractional)}; write all decimal "
            "marks alike, and no marks between thousands."
        )
    if all(_all(table.column(name), _THOUSANDS) for name in commas):
        raise DataError(
            f"{where} has commas in numbers ({listed}) that may be decimal marks or part thousands; write the numbers "
            "with decimal points, or leave the commas out."
        )


def _without(column: pa.ChunkedArray, spellings: tuple[str, ...]) -> pa.ChunkedArray:
    return pc.if_else(pc.is_in(column, value_set=pa.array(spellings)), pa.scalar(None, pa.string()), column)


def _all(column: pa.ChunkedArray, pattern: str) -> bool:
    """Tell if all values that are there fit the pattern, and there is one."""
    return column.null_count < len(column) and bool(pc.all(pc.match_substring_regex(column, pattern)).as_py())


def _any(column: pa.ChunkedArray, mark: str) -> bool:
    return bool(pc.any(pc.match_substring(column, mark)).as_py())


def _has_fractions(column: pa.ChunkedArray) -> bool:
    values = column.drop_null().to_numpy()
    return bool((values[np.isfinite(values)] % 1 != 0).any())


def _replaced(table: pa.Table, name: str, column: pa.ChunkedArray) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, pc.cast(column, pa.float64()))

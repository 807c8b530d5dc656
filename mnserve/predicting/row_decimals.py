"""Decimal mark of a table: a comma, where the separator is none and numbers have commas that part no thousands.

It is a matter of the whole table, as in training: 1,234 alone may be either.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from mnserve.errors import RowFileError
from mnserve.predicting.row_file import TableText, open_rows
from mnserve.repository.row_layout import TableLayout

_DECIMAL_COMMA: Final = re.compile(r"[+-]?(\d*),(\d*)([eE][+-]?\d+)?", re.ASCII)
_DECIMAL_POINT: Final = re.compile(r"[+-]?\d*\.\d*[1-9]\d*([eE][+-]?\d+)?", re.ASCII)


def decimal_mark(path: Path | TableText, layout: TableLayout) -> str:
    """Reads through a table and returns the decimal mark of its numbers, "." or ",".

    Raises:
        RowFileError: Some numbers have commas and others points, or the table cannot be used.
    """
    commas, points = "", ""
    with open_rows(path, layout.columns) as file:
        positions = file.positions(layout.numbers)
        if file.separator == ",":
            return "."
        try:
            for row in file.rows:
                for position in positions if not row.fault else ():
                    cell = row.cells[position].strip()
                    if _DECIMAL_POINT.fullmatch(cell):
                        points = points or cell
                    elif (found := _DECIMAL_COMMA.fullmatch(cell)) and not _parts_thousands(found):
                        commas = commas or cell
        except RowFileError:
            pass  # rows before the fault are answered; it is told then
    if commas and points:
        raise RowFileError(
            f"{path}: numbers have commas ({commas}) and points ({points}); write all decimal marks alike, and no "
            "marks between thousands"
        )
    return "," if commas else "."


def _parts_thousands(number: re.Match[str]) -> bool:
    whole, fraction, power = number.groups()
    return power is None and 1 <= len(whole) <= 3 and not whole.startswith("0") and len(fraction) == 3

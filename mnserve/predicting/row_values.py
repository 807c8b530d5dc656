"""Values of a row: its cells become the numbers and categories that a model takes.

Shapes: B rows in a batch, Fn columns of numbers, Fc columns of categories.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mnserve.codec.datatypes import DATATYPES
from mnserve.errors import RowError
from mnserve.predicting.row_file import RowFile, TableRow
from mnserve.repository.row_layout import TableLayout
from mnserve.text.names import shortened

_MISSING: Final = frozenset(
    (
        *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>"),
        *("N/A", "NA", "NULL", "NaN", "n/a", "nan", "null"),
    )
)
"""Texts for a missing value, the same as in training (``mntrain.data.reading``); a test compares them."""
_MISSING_NUMBERS: Final = _MISSING | {"?", "None", "none"}
LARGEST: Final = float(np.finfo(np.float32).max)
"""Largest number that a model takes."""
_TRUTH: Final = {"true": 1.0, "false": 0.0}
_WHOLE: Final = re.compile(r"([+-]?\d+)\.0*", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class RowValues:
    """Values of one row: numbers in their order, NaN where they are missing, and categories."""

    numbers: tuple[float, ...]
    categories: tuple[str, ...]


class RowReader:
    """Reads the rows of one table for one model.

    Args:
        layout: Columns of the model.
        file: The table.
        decimal: Decimal mark of its numbers, "." or ",".

    Raises:
        RowFileError: A column is missing, or there twice.
    """

    def __init__(self, layout: TableLayout, file: RowFile, decimal: str = ".") -> None:
        self._layout = layout
        self._decimal = decimal
        positions = file.positions(layout.columns)
        self._numbers = tuple(zip(layout.numbers, positions, strict=False))
        self._categories = tuple(zip(layout.categories, positions[len(layout.numbers) :], strict=True))
        self._known = {name: _Vocabulary(values) for name, values in layout.categories.items()}
        self.unknown: dict[str, dict[str, int]] = {}
        """Column -> its categories that the model does not know, and how many rows have each."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Unknown categories so far, as sentences for the user."""
        return unknown_notes(self._layout, self.unknown)

    def read(self, row: TableRow) -> RowValues:
        """Reads a row.

        Raises:
            RowError: A cell holds no number, or none at all where the model needs one; all such cells are named.
        """
        if row.fault:
            raise RowError(row.fault)
        faults: list[str] = []
        numbers = tuple(self._number(name, row.cells[position], faults) for name, position in self._numbers)
        if faults:
            raise RowError("; ".join(faults))
        categories = tuple(self._category(name, row.cells[position]) for name, position in self._categories)
        return RowValues(numbers=numbers, categories=categories)

    def _category(self, name: str, cell: str) -> str:
        text = cell.strip()
        if text in _MISSING:
            return ""
        value = self._known[name].spelled(text)
        if value is None:
            counts = self.unknown.setdefault(name, {})
            counts[text] = counts.get(text, 0) + 1
            return text
        return value

    def _number(self, name: str, cell: str, faults: list[str]) -> float:
        text = cell.strip()
        word = text.lower()
        if text in _MISSING_NUMBERS:
            if not self._layout.fills_in:
                faults.append(
                    f"column '{name}' has no value, and the model fills none in (it was trained on rows without gaps)"
                )
            return math.nan
        if word in _TRUTH:
            return _TRUTH[word]
        if self._decimal == ",":
            text = text.replace(",", ".", 1)
        if not _NUMBER.fullmatch(text):
            faults.append(f"column '{name}' is {shortened(cell)!r}, which is no number")
            return math.nan
        value = float(text)
        if not abs(value) <= LARGEST:
            faults.append(f"column '{name}' is {shortened(cell)}, which is more than 32-bit floating point can hold")
        return value


class _Vocabulary:
    """Values of a category as the model knows them; whole numbers and truth may be spelled otherwise in a file."""

    def __init__(self, values: Sequence[str]) -> None:
        self._values = frozenset(values)
        self._truth = {value.casefold(): value for value in values if value.casefold() in _TRUTH}

    def spelled(self, text: str) -> str | None:
        """Returns the value that a text means, such as 3 for 3.0; None for an unknown one."""
        if text in self._values or not self._values:
            return text
        whole = _WHOLE.fullmatch(text)
        found = self._truth.get(text.casefold(), whole.group(1) if whole else "")
        return found if found in self._values else None


def unknown_notes(layout: TableLayout, unknown: Mapping[str, Mapping[str, int]]) -> tuple[str, ...]:
    """Writes a sentence for each column with categories that the model does not know.

    Args:
        layout: Columns of the model.
        unknown: Column -> its unknown categories, and how many rows have each.
    """
    return tuple(_unknown_note(name, counts, len(layout.categories[name])) for name, counts in unknown.items())


def _unknown_note(name: str, counts: Mapping[str, int], known: int) -> str:
    value = max(counts, key=lambda key: counts[key])
    rows = sum(counts.values())
    return (
        f"column '{name}' has {len(counts)} {'category' if len(counts) == 1 else 'categories'} that the model does "
        f"not know, such as '{value}', in {rows} row{'' if rows == 1 else 's'}; each counts as none of its {known}"
    )


def encode(layout: TableLayout, rows: Sequence[RowValues]) -> dict[str, NDArray[Any]]:
    """Encodes rows as the inputs of a model: numbers [B, Fn] and categories [B, Fc], where it has any."""
    feeds: dict[str, NDArray[Any]] = {}
    if layout.number_input is not None:
        datatype = DATATYPES[layout.number_input.datatype]
        feeds[layout.number_input.name] = np.array([row.numbers for row in rows], dtype=datatype.dtype)
    if layout.category_input is not None:
        texts = np.empty((len(rows), len(layout.categories)), dtype=object)
        for position, row in enumerate(rows):
            texts[position] = [category.encode() for category in row.categories]
        feeds[layout.category_input.name] = texts
    return feeds

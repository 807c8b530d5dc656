"""Kinds of the columns of features: numbers or categories; all others are refused with what to do."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from mntrain.data.labels import listing
from mntrain.errors import DataError

Columns = Mapping[str, pa.ChunkedArray]
"""Split → its values of one column."""
Kind = Literal["number", "category"]
MOST_CATEGORIES = 100
"""Texts of more values than this are no categories by themselves."""
_ROWS_OF_A_CATEGORY = 2
_NUMBER = re.compile(r"[-+]?[$€£]? ?[.,]?\d[\d.,' _]*([eE][-+]?\d+)? ?[%$€£]?")
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T].*)?|\d{1,2}:\d{2}(:\d{2})?.*")


def feature_kinds(features: Mapping[str, Columns], forced: Sequence[str], *, where: str) -> dict[str, Kind]:
    """Tell numbers from categories.

    Args:
        features: column → split → values.
        forced: columns that are categories whatever they hold.
        where: the file or folder, for messages.

    Raises:
        DataError: columns hold dates, texts of many values, numbers beside texts, nothing at all, or are of one kind in
            one split and of another in the next.
    """
    found: dict[str, Kind] = {}
    faults: dict[str, list[str]] = {}
    for name, columns in features.items():
        kind, fault, detail = _kind(columns, name in forced)
        found[name] = kind
        if fault:
            faults.setdefault(fault, []).append(f"'{name}' ({detail})" if detail else f"'{name}'")
    for fault, columns_with_it in faults.items():
        raise DataError(f"{where}: these columns of features {fault.format(listing(columns_with_it))}")
    return found


def is_numeric(kind: pa.DataType) -> bool:
    """Tell if values are numbers or true/false."""
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind))


def is_text(kind: pa.DataType) -> bool:
    """Tell if values are texts, or names stored by number."""
    types = pa.types
    if types.is_dictionary(kind):
        return is_text(kind.value_type) or bool(types.is_integer(kind.value_type) or types.is_boolean(kind.value_type))
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def looks_like_amount(text: str) -> bool:
    """Tell if a text looks like a number, with or without a unit or marks between thousands, or like a date."""
    return _NUMBER.fullmatch(text) is not None or _DATE.fullmatch(text) is not None


def example(column: pa.ChunkedArray, wanted: Callable[[str], bool] = lambda text: True) -> str:
    """Describe the first value, if possible one that is ``wanted``, and its row."""
    try:
        texts = [None if value is None else str(value) for value in column.to_pylist()]
    except (pa.ArrowException, ValueError, OverflowError):  # times for which Python has no type
        return f"values of type {column.type}"
    rows = [(row, text) for row, text in enumerate(texts, 1) if text is not None]
    row, text = next((item for item in rows if wanted(item[1])), rows[0] if rows else (0, ""))
    return f"such as {text[:40]!r} in row {row}" if rows else "no value at all"


def _kind(columns: Columns, forced: bool) -> tuple[Kind, str, str]:
    """Return the kind of a column, and what is wrong with it, if anything, with an example."""
    held = {split: column for split, column in columns.items() if not pc.all(column.is_null(nan_is_null=True)).as_py()}
    if not held:
        return "number", "have no value in any row: {}; leave them out with data.exclude_columns.", ""
    for column in held.values():
        if pa.types.is_temporal(column.type):
            return "number", _DATES, example(column)
        if not is_numeric(column.type) and not is_text(column.type):
            return "number", _OTHERS, str(column.type)
    # A category of pandas is one whatever its values are.
    if forced or all(pa.types.is_dictionary(column.type) and not _holds_text(column) for column in held.values()):
        return "category", "", ""
    texts = {split: column for split, column in held.items() if is_text(column.type)}
    if not texts:
        return "number", "", ""
    if len(texts) < len(held):
        split, column = next(iter(texts.items()))
        others = listing([name for name in held if name not in texts])
        detail = f"text in {split}, {example(column, _is_no_number)}, numbers in {others}"
        return "category", _DIFFERING, detail
    fault, detail = _fault_of_texts(texts)
    return "category", fault, detail


_DATES = (
    "hold dates or times, from which nothing is learned as they are: {}; leave them out with data.exclude_columns, or "
    "write what matters of them (such as year, month or hours) as columns of numbers."
)
_OTHERS = "hold neither numbers nor texts: {}; leave them out with data.exclude_columns."
_DIFFERING = (
    "are not of one kind in every split: {}; correct them, or name them in data.category_columns where the numbers are "
    "names, too."
)
_NUMBERS_AS_TEXT = (
    "hold no numbers, but texts most of which look like numbers: {}; write numbers plainly and missing values as empty "
    "cells, or name the columns in data.category_columns, or leave them out with data.exclude_columns."
)
_IDENTITIES = (
    f"hold texts of more than {MOST_CATEGORIES} values, or of fewer than {_ROWS_OF_A_CATEGORY} rows a value, which may "
    "be names of single rows: {}; leave them out with data.exclude_columns, or name them in data.category_columns."
)


def _fault_of_texts(texts: Columns) -> tuple[str, str]:
    """Return why texts cannot be categories by themselves, with an example; nothing where they can."""
    column = next(iter(texts.values()))
    values = [str(value) for value in pc.unique(_plain(column)).to_pylist() if value is not None]
    count = len(values)
    if 2 * sum(_DATE.fullmatch(value) is not None for value in values) > count:
        return _DATES, example(column)
    numbers = sum(_NUMBER.fullmatch(value) is not None for value in values)
    if 2 * numbers >= count:
        return _NUMBERS_AS_TEXT, example(column, _is_no_number)
    if count > min(MOST_CATEGORIES, max(1, (len(column) - column.null_count) // _ROWS_OF_A_CATEGORY)):
        return _IDENTITIES, f"{count} values, {example(column)}"
    return "", ""


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _holds_text(column: pa.ChunkedArray) -> bool:
    return is_text(column.type.value_type)


def _is_no_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is None

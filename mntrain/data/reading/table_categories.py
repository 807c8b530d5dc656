"""Categories of a table: texts of their values, and codes by their place in a vocabulary.

Shapes: N rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from mntrain.data.labels import listing
from mntrain.data.reading.table_kinds import example
from mntrain.data.tables import UNKNOWN, RowArray
from mntrain.errors import DataError

MOST_VALUES = 10_000
"""Values of one category column, each of which is a column of the encoded rows."""
_WHOLE = re.compile(r"([+-]?\d+)(\.0*)?")
_DECIMAL = re.compile(r"[+-]?\d*\.\d*[1-9]\d*")


def plain_texts(column: pa.ChunkedArray) -> list[str | None]:
    """Return the values of a column as texts; None where there is no value. Numbers such as 3.0 become 3."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return [None if value is None or value != value else _text(value) for value in column.to_pylist()]


def category_texts(column: pa.ChunkedArray, name: str, *, where: str) -> list[str | None]:
    """Return the names that the values of a category column stand for; None where there is no value.

    Whole numbers are named by their digits, also where they are stored as 3.0.

    Args:
        column: texts, whole numbers, or true and false.
        name: of the column, for messages.
        where: the file or folder, for messages.

    Raises:
        DataError: the column holds decimal numbers.
    """
    texts = plain_texts(column)
    held = {text for text in texts if text is not None}
    if all(_WHOLE.fullmatch(text) or _DECIMAL.fullmatch(text) for text in held):
        decimal = [text for text in held if not _WHOLE.fullmatch(text)]
        if decimal:
            found = example(column, lambda text: _WHOLE.fullmatch(text) is None)
            raise DataError(
                f"{where}: data.category_columns names '{name}', but it holds decimal numbers ({found}); "
                "categories are texts or whole numbers."
            )
        texts = [None if text is None else whole_text(text) for text in texts]
    return texts


def whole_text(text: str) -> str:
    """Return a whole number without decimals: 3 for 3.0; other texts as they are."""
    match = _WHOLE.fullmatch(text)
    return match.group(1) if match and match.group(2) else text


def vocabulary_of(splits: Mapping[str, Sequence[str | None]], name: str, *, where: str) -> tuple[str, ...]:
    """Return the values of all splits in their order: whole numbers by size, texts by their letters.

    Raises:
        DataError: there are more than :data:`MOST_VALUES`.
    """
    values = {text for texts in splits.values() for text in texts if text is not None}
    if len(values) > MOST_VALUES:
        raise DataError(
            f"{where}: category column '{name}' has {len(values)} values ({listing(sorted(values)[:3])}); at most "
            f"{MOST_VALUES} can be told apart, so leave it out with data.exclude_columns."
        )
    if all(text.lstrip("+-").isdecimal() for text in values):
        return tuple(sorted(values, key=lambda text: (int(text), text)))
    return tuple(sorted(values))


def codes_of(texts: Sequence[str | None], vocabulary: Sequence[str]) -> RowArray:
    """Return the place of each text in the vocabulary, float32 [N]; -1 for unknown and missing ones."""
    places = {text: place for place, text in enumerate(vocabulary)}
    return np.array([UNKNOWN if text is None else places.get(text, UNKNOWN) for text in texts], dtype=np.float32)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)

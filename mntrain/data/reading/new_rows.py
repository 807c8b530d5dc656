"""Lay out rows that a model has never seen as the rows it was trained on: columns by name, categories by their text.

Shapes: N rows, F features, T targets.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mntrain.data.account import ColumnAccount, SourceAccount
from mntrain.data.labels import listing
from mntrain.data.reading.table_categories import codes_of, plain_texts, whole_text
from mntrain.data.reading.table_columns import check_present, column_values
from mntrain.data.reading.table_kinds import example, is_numeric
from mntrain.data.reading.table_reading import is_number
from mntrain.data.row_layout import RowLayout
from mntrain.data.tables import UNKNOWN, RowArray, TableSet
from mntrain.errors import DataError

_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
_PLAIN_WHOLE = re.compile(r"0|-?[1-9]\d*", re.ASCII)


@dataclass(frozen=True, kw_only=True, eq=False)
class LaidOutRows:
    """Rows as a model was trained on them.

    Args:
        inputs: float32 [N, F]; NaN is a missing number, -1 an unknown or missing category.
        targets: float32 values [N] or [N, T], or int64 labels [N]; None where they were not asked for.
        account: columns with their role, missing values and unknown categories.
    """

    inputs: RowArray
    targets: NDArray[Any] | None
    account: SourceAccount

    def labelled(self) -> TableSet:
        """Return the rows with their targets, which must have been asked for."""
        assert self.targets is not None
        return TableSet(inputs=self.inputs, targets=self.targets)


def lay_out_rows(table: pa.Table, layout: RowLayout, *, where: str, labelled: bool) -> LaidOutRows:
    """Lay out the rows of a table: columns are found by name, in any order, and others are ignored.

    Args:
        table: rows to lay out, such as ``pyarrow.Table.from_pylist`` makes of dictionaries.
        layout: of the model.
        where: the rows, for messages.
        labelled: take the targets, too.

    Raises:
        DataError: columns are missing, a number is no number or is missing where none may be, or a target is missing or
            a class that the model does not know.
    """
    wanted = (*layout.numbers, *layout.categories, *(layout.targets if labelled else ()))
    lacking = [name for name in wanted if name not in table.column_names]
    if lacking:
        raise DataError(
            f"{where} has no column {listing([repr(name) for name in lacking])}, which the model takes; it has the "
            f"columns {listing(table.column_names)}."
        )
    if table.num_rows == 0:
        raise DataError(f"{where} holds no rows; give at least one.")
    remedy = None if layout.imputed else "the model was trained without missing values, so fill them in"
    numbers = [_number(table.column(name), name, where, remedy)[:, None] for name in layout.numbers]
    accounts = [_number_account(name, values) for name, values in zip(layout.numbers, numbers, strict=True)]
    codes = []
    for name, vocabulary in layout.categories.items():
        texts = known_spellings(plain_texts(table.column(name)), vocabulary)
        column = codes_of(texts, vocabulary)
        codes.append(column[:, None])
        accounts.append(_category_account(name, vocabulary, texts, column))
    inputs = np.concatenate([np.empty((table.num_rows, 0), np.float32), *numbers, *codes], axis=1)
    targets = _targets(table, layout, where) if labelled else None
    if labelled:
        kind = "value" if layout.labels is None else "class"
        names = layout.labels or ()
        accounts += [ColumnAccount(name=name, role="target", kind=kind, categories=names) for name in layout.targets]
    accounts += [
        ColumnAccount(name=name, role="excluded", kind=str(table.column(name).type), note="no column of the model")
        for name in table.column_names
        if name not in wanted
    ]
    return LaidOutRows(inputs=inputs, targets=targets, account=SourceAccount(location=where, columns=tuple(accounts)))


def _number(column: pa.ChunkedArray, name: str, where: str, remedy: str | None) -> RowArray:
    """Turn a column of numbers into float32 [N]; NaN is a missing value, refused where there is a ``remedy``."""
    if pa.types.is_dictionary(column.type) and is_numeric(column.type.value_type):
        column = column.cast(column.type.value_type)
    if not is_numeric(column.type) and not pa.types.is_null(column.type):
        found = example(column, lambda text: not is_number(text))
        raise DataError(f"{where}: column '{name}' holds no numbers ({found}), as the model was trained on.")
    if remedy is not None:
        check_present({name: {"all": column}}, where=where, remedy=remedy)
    return column_values(column, name, where).astype(np.float32)


def known_spellings(texts: Sequence[str | None], vocabulary: Sequence[str]) -> list[str | None]:
    """Write whole numbers and truth as the vocabulary does; texts that it does not know stay as they are."""
    known = frozenset(vocabulary)
    by_case = {name.casefold(): name for name in vocabulary if name.casefold() in ("true", "false")}
    found: list[str | None] = []
    for text in texts:
        if text is None or text in known:
            found.append(text)
        else:
            found.append(by_case.get(text.casefold(), whole_text(text)))
    return found


def known_classes(texts: Sequence[str | None], labels: Sequence[str]) -> list[str | None]:
    """Write classes as a model calls them: like :func:`known_spellings`, and 01 as 1 where all classes are numbers."""
    found = known_spellings(texts, labels)
    if not all(_PLAIN_WHOLE.fullmatch(label) for label in labels):
        return found
    return [str(int(text)) if text is not None and _WHOLE.fullmatch(text) else text for text in found]


def _targets(table: pa.Table, layout: RowLayout, where: str) -> NDArray[Any]:
    columns = [table.column(name) for name in layout.targets]
    remedy = "label those rows or remove them"
    if layout.labels is None:
        values = [_number(column, name, where, remedy) for name, column in zip(layout.targets, columns, strict=True)]
        return np.stack(values, axis=1) if len(values) > 1 else values[0]
    (name,), (column,) = layout.targets, columns
    check_present({name: {"all": column}}, where=where, remedy=remedy)
    texts = known_classes(plain_texts(column), layout.labels)
    labels = codes_of(texts, layout.labels).astype(np.int64)
    unknown = sorted({str(text) for text, label in zip(texts, labels, strict=True) if label == UNKNOWN})
    if unknown:
        raise DataError(
            f"{where}: the target column '{name}' holds classes that the model does not know: {listing(unknown)}; it "
            f"knows {listing(layout.labels)}. Remove those rows, or write the classes alike."
        )
    return labels


def _number_account(name: str, values: RowArray) -> ColumnAccount:
    return ColumnAccount(name=name, role="feature", kind="number", missing=int(np.isnan(values).sum()))


def _category_account(
    name: str, vocabulary: tuple[str, ...], texts: Sequence[str | None], codes: RowArray
) -> ColumnAccount:
    missing = sum(text is None for text in texts)
    unknown = int((codes == UNKNOWN).sum()) - missing
    new = sorted({text for text, code in zip(texts, codes, strict=True) if text is not None and code == UNKNOWN})
    note = f"{unknown} row(s) hold values that no training row had: {listing(new)}" if unknown else ""
    return ColumnAccount(name=name, role="feature", kind="category", missing=missing, categories=vocabulary, note=note)

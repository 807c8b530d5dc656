"""Turn the columns of a table into float32 features and targets; columns that cannot be used are named.

Shapes: N rows, F features.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mntrain.data.config import TargetKind
from mntrain.data.labels import listing
from mntrain.data.tables import RowArray
from mntrain.errors import DataError

_EXACT = 2**53  # from here on 64-bit floating point skips whole numbers
# Columns that float32 cannot tell apart from rounding are identities or times, not measurements.
_MOST_ROUNDING = 1e-3
_LEAST_SPREAD = 1e-30


def read_features(tables: Mapping[str, pa.Table], *, where: str) -> dict[str, RowArray]:
    """Turn the columns of every split into float32 [N, F].

    Raises:
        DataError: a column holds text, a missing, infinite or too large value, or one value only; all of a kind are
            named.
    """
    names = next(iter(tables.values())).column_names
    texts = [
        f"'{name}' ({_example(table.column(name))})"
        for name in names
        for table in [next((table for table in tables.values() if not _is_numeric(table.column(name).type)), None)]
        if table is not None
    ]
    if texts:
        raise DataError(
            f"{where}: these columns of features hold no numbers: {listing(texts)}; encode them as numbers or remove "
            "them (and check data.target_column)."
        )
    values = {
        split: np.stack([_numbers(table.column(name), name, f"{where}, {split} split") for name in names], axis=1)
        for split, table in tables.items()
    }
    together = np.concatenate(list(values.values()))
    constant = [
        f"'{name}'" for name, low, high in zip(names, together.min(0), together.max(0), strict=True) if low == high
    ]
    if constant:
        raise DataError(
            f"{where}: these columns hold the same value in every row: {listing(constant)}; they tell nothing, so "
            "remove them."
        )
    for column, name in enumerate(names):
        _check_precision(together[:, column], name, where)
    return {split: columns.astype(np.float32) for split, columns in values.items()}


def read_targets(
    columns: Mapping[str, pa.ChunkedArray], name: str, kind: TargetKind, *, where: str
) -> tuple[dict[str, NDArray[Any]], tuple[str, ...] | None]:
    """Read the targets of every split, float32 values or int64 labels [N], and the class names if there are classes.

    ``auto`` takes text and true/false for classes and every number for a value: a column of whole numbers may be
    either, and treating a value as a class loses more.

    Raises:
        DataError: a target is missing, of another kind than asked for, the same in every row, or a class has one row.
    """
    types = {column.type for column in columns.values()}
    numeric = all(_is_numeric(data_type) and not pa.types.is_boolean(data_type) for data_type in types)
    if kind == "class" or (kind == "auto" and not numeric):
        return _labels(columns, name, where)
    if not numeric:
        raise DataError(
            f"{where}: data.target is 'value', but the target column '{name}' holds no numbers "
            f"({_example(next(iter(columns.values())))}); leave data.target out, or choose another data.target_column."
        )
    values = {split: _numbers(column, name, f"{where}, {split} split") for split, column in columns.items()}
    together = np.concatenate(list(values.values()))
    if together.min() == together.max():
        raise DataError(
            f"{where}: the target column '{name}' is {together[0]:g} in every row, so there is nothing to learn; "
            "choose another data.target_column."
        )
    _check_precision(together, name, where)
    return {split: part.astype(np.float32) for split, part in values.items()}, None


def _labels(
    columns: Mapping[str, pa.ChunkedArray], name: str, where: str
) -> tuple[dict[str, NDArray[Any]], tuple[str, ...]]:
    for split, column in columns.items():
        if pa.types.is_floating(column.type) or pa.types.is_decimal(column.type):
            raise DataError(
                f"{where}: data.target is 'class', but the target column '{name}' holds decimal numbers "
                f"({_example(column)}); write classes as whole numbers or text, or leave data.target out."
            )
        if not (_is_text(column.type) or _is_numeric(column.type)):
            raise DataError(
                f"{where}: the target column '{name}' holds {column.type}, which is neither a number nor a class; "
                "choose another data.target_column."
            )
        _check_missing(column, name, f"{where}, {split} split")
    kinds = {split: _kind(column.type) for split, column in columns.items()}
    if len(set(kinds.values())) > 1:
        listed = listing([f"{kind} in {split}" for split, kind in kinds.items()])
        raise DataError(
            f"{where}: the target column '{name}' is not of one kind in every split ({listed}); write the "
            "classes alike."
        )
    plain = {split: column.cast(_plain(column.type)).to_pylist() for split, column in columns.items()}
    counts = Counter(value for part in plain.values() for value in part)
    classes = sorted(counts)
    single = [repr(value) for value in classes if counts[value] == 1]
    if single:
        raise DataError(
            f"{where}: class {listing(single)} of the target column '{name}' has a single row, so it cannot be both "
            "learned and tested; add rows of it or remove it, or set data.target to 'value'."
        )
    position = {value: number for number, value in enumerate(classes)}
    labels: dict[str, NDArray[Any]] = {
        split: np.array([position[value] for value in part], dtype=np.int64) for split, part in plain.items()
    }
    return labels, tuple(str(value) for value in classes)


def _numbers(column: pa.ChunkedArray, name: str, where: str) -> NDArray[np.float64]:
    """Turn a column into float64 [N]; float32 must be able to hold every value."""
    _check_missing(column, name, where)
    if pa.types.is_integer(column.type):
        largest = max((abs(value) for value in pc.min_max(column).as_py().values() if value is not None), default=0)
        if largest >= _EXACT:
            raise DataError(
                f"{where}: column '{name}' holds whole numbers as large as {largest}, which floating point cannot tell "
                "apart; remove it if it is an identity, or subtract its smallest value."
            )
    values: NDArray[np.float64] = pc.cast(column, pa.float64(), safe=False).to_numpy().astype(np.float64)
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        raise DataError(
            f"{where}: column '{name}' is {values[wrong[0]]} in row {wrong[0] + 1}, and {len(wrong)} value(s) in all "
            "are NaN or infinite; correct or remove those rows."
        )
    if np.abs(values).max() > np.finfo(np.float32).max:
        raise DataError(
            f"{where}: column '{name}' holds {values[np.abs(values).argmax()]:g}, beyond what 32-bit floating point "
            "can hold; scale the column."
        )
    return values


def _check_missing(column: pa.ChunkedArray, name: str, where: str) -> None:
    if column.null_count:
        first = int(np.flatnonzero(column.is_null().to_numpy())[0])
        raise DataError(
            f"{where}: column '{name}' has no value (empty or NaN) in row {first + 1}, and {column.null_count} row(s) "
            "in all have none; fill them in or remove them."
        )


def _check_precision(values: NDArray[np.float64], name: str, where: str) -> None:
    """Refuse columns whose values differ by less than float32 rounds, such as large identities and times."""
    if values.std() < _LEAST_SPREAD:
        raise DataError(
            f"{where}: column '{name}' varies by {values.std():.3g} only, by which 32-bit floating point cannot "
            "divide; scale the column."
        )
    rounding = np.abs(values - values.astype(np.float32)).max()
    if rounding > _MOST_ROUNDING * values.std():
        raise DataError(
            f"{where}: column '{name}' runs from {values.min():.17g} to {values.max():.17g}, where 32-bit floating "
            f"point rounds by up to {rounding:.3g}: too much beside its spread. Remove it if it is an identity, or "
            "subtract its smallest value."
        )


def _example(column: pa.ChunkedArray) -> str:
    """Describe the first value that is no number, and its row."""
    try:
        texts = [None if value is None else str(value) for value in column.to_pylist()]
    except (pa.ArrowException, ValueError, OverflowError):  # times for which Python has no type
        return f"values of type {column.type}"
    rows = [(row, text) for row, text in enumerate(texts, 1) if text is not None]
    row, text = next((item for item in rows if not is_number(item[1])), rows[0] if rows else (0, ""))
    return f"such as {text[:40]!r} in row {row}" if rows else "no value at all"


def is_number(text: str) -> bool:
    """Tell if a text can be read as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_numeric(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    )


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind))


def _kind(kind: pa.DataType) -> str:
    if _is_text(kind):
        return "text"
    return "true/false" if pa.types.is_boolean(kind) else "whole numbers"


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind

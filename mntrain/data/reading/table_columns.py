"""Turn the columns of a table into float32 features and targets; columns that cannot be used are named.

Shapes: N rows, F features.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mntrain.data.config import TargetKind
from mntrain.data.labels import listing
from mntrain.data.reading.table_kinds import Columns, example, is_numeric, is_text, looks_like_amount
from mntrain.data.reading.table_reading import is_number
from mntrain.data.tables import RowArray
from mntrain.errors import ConfigError, DataError

_EXACT = 2**53  # from here on 64-bit floating point skips whole numbers
# Columns that float32 cannot tell apart from rounding are identities or times, not measurements.
_MOST_ROUNDING = 1e-3
_LEAST_SPREAD = 1e-30


def check_present(
    features: Mapping[str, Columns],
    *,
    where: str,
    remedy: str = "fill them in, remove those rows, or set data.missing to median or mean",
) -> None:
    """Refuse missing values.

    Args:
        features: column → split → values.
        where: the file or folder, for messages.
        remedy: what to do about it.

    Raises:
        DataError: a row has no value in a column.
    """
    for name, columns in features.items():
        for split, column in columns.items():
            _check_missing(column, name, in_split(where, split), remedy)


def read_numbers(features: Mapping[str, Columns], *, where: str) -> dict[str, RowArray]:
    """Turn columns of numbers of every split into float32 [N, F]; NaN is a missing value.

    Args:
        features: column → split → values.
        where: the file or folder, for messages.

    Raises:
        DataError: a column holds an infinite or too large value, or one value only.
    """
    values = {
        name: {split: column_values(column, name, in_split(where, split)) for split, column in columns.items()}
        for name, columns in features.items()
    }
    together = {name: np.concatenate(list(splits.values())) for name, splits in values.items()}
    refuse_constant([name for name, column in together.items() if np.nanmin(column) == np.nanmax(column)], where)
    for name, column in together.items():
        _check_precision(column[~np.isnan(column)], name, where)
    splits = next(iter(values.values()))
    return {split: np.stack([values[name][split] for name in values], axis=1).astype(np.float32) for split in splits}


def in_split(where: str, split: str) -> str:
    """Name a split of a file or folder for a message; a file that is not split is named alone."""
    return where if split == "all" else f"{where}, {split} split"


def refuse_constant(names: Sequence[str], where: str) -> None:
    """Refuse columns of features that hold one value.

    Raises:
        DataError: there are any.
    """
    if names:
        raise DataError(
            f"{where}: these columns hold the same value in every row: {listing([repr(name) for name in names])}; they "
            "tell nothing, so leave them out with data.exclude_columns."
        )


def read_targets(
    targets: Mapping[str, Columns], kind: TargetKind, *, where: str
) -> tuple[dict[str, NDArray[Any]], tuple[str, ...] | None]:
    """Read the targets of every split, and the class names if there are classes.

    ``auto`` takes text and true/false for classes and every number for a value: a column of whole numbers may be
    either, and treating a value as a class loses more.

    Args:
        targets: column → split → values; several must all be values.
        kind: of the targets, as configured.
        where: the file or folder, for messages.

    Returns:
        Split → float32 values [N], or [N, T] of several targets, or int64 labels [N]; and the class names.

    Raises:
        DataError: a target is missing, of another kind than asked for, the same in every row, or a class has one row.
        ConfigError: several columns of classes are asked for.
    """
    several = len(targets) > 1
    if several and kind == "class":
        raise ConfigError(
            f"data.target is 'class', but data.target_column names {len(targets)} columns ({listing(list(targets))}); "
            "classes are told apart by one column, so name one of them."
        )
    values: list[dict[str, NDArray[np.float64]]] = []
    for name, columns in targets.items():
        types = {column.type for column in columns.values()}
        numeric = all(is_numeric(data_type) and not pa.types.is_boolean(data_type) for data_type in types)
        if several and not numeric:
            raise DataError(
                f"{where}: data.target_column names several columns, which must all be numbers, but '{name}' holds "
                f"{_example(next(iter(columns.values())))}; leave it out, or name it alone."
            )
        if kind == "class" or (kind == "auto" and not numeric):
            if kind == "auto":
                _check_names(columns, name, where)
            return _labels(columns, name, where)
        values.append(_target_values(columns, name, numeric, where))
    stacked = {split: np.stack([part[split] for part in values], axis=1).astype(np.float32) for split in values[0]}
    return {split: part if several else part[:, 0] for split, part in stacked.items()}, None


def _target_values(columns: Columns, name: str, numeric: bool, where: str) -> dict[str, NDArray[np.float64]]:
    if not numeric:
        raise DataError(
            f"{where}: data.target is 'value', but the target column '{name}' holds no numbers "
            f"({_example(next(iter(columns.values())))}); leave data.target out, or choose another data.target_column."
        )
    values = {}
    for split, column in columns.items():
        _check_missing(column, name, in_split(where, split))
        values[split] = column_values(column, name, in_split(where, split))
    together = np.concatenate(list(values.values()))
    if together.min() == together.max():
        raise DataError(
            f"{where}: the target column '{name}' is {together[0]:g} in every row, so there is nothing to learn; "
            "choose another data.target_column."
        )
    _check_precision(together, name, where)
    return values


def _check_names(columns: Columns, name: str, where: str) -> None:
    """Refuse texts as classes where most of them look like numbers or dates."""
    for column in columns.values():
        texts = [str(text) for text in pc.unique(column.cast(_plain(column.type))).to_pylist() if text is not None]
        if is_text(column.type) and 2 * sum(looks_like_amount(text) for text in texts) >= len(texts):
            raise DataError(
                f"{where}: the target column '{name}' holds texts most of which look like numbers or dates "
                f"({example(column, lambda text: not looks_like_amount(text))}); write numbers plainly, or set "
                "data.target to class if they are names."
            )


def _labels(columns: Columns, name: str, where: str) -> tuple[dict[str, NDArray[Any]], tuple[str, ...]]:
    for split, column in columns.items():
        if pa.types.is_floating(column.type) or pa.types.is_decimal(column.type):
            raise DataError(
                f"{where}: data.target is 'class', but the target column '{name}' holds decimal numbers "
                f"({_example(column)}); write classes as whole numbers or text, or leave data.target out."
            )
        if not (is_text(column.type) or is_numeric(column.type)):
            raise DataError(
                f"{where}: the target column '{name}' holds {column.type}, which is neither a number nor a class; "
                "choose another data.target_column."
            )
        _check_missing(column, name, in_split(where, split))
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


def column_values(column: pa.ChunkedArray, name: str, where: str) -> NDArray[np.float64]:
    """Turn a column into float64 [N], missing values into NaN; float32 can hold every other value.

    Raises:
        DataError: a value is infinite, or so large that it would not keep its digits.
    """
    if pa.types.is_integer(column.type):
        largest = max((abs(value) for value in pc.min_max(column).as_py().values() if value is not None), default=0)
        if largest >= _EXACT:
            raise DataError(
                f"{where}: column '{name}' holds whole numbers as large as {largest}, which floating point cannot tell "
                "apart; leave it out with data.exclude_columns if it is an identity, or subtract its smallest value."
            )
    values: NDArray[np.float64] = pc.cast(column, pa.float64(), safe=False).to_numpy().astype(np.float64)
    wrong = np.flatnonzero(np.isinf(values))
    if len(wrong):
        raise DataError(
            f"{where}: column '{name}' is {values[wrong[0]]} in row {wrong[0] + 1}, and {len(wrong)} value(s) in all "
            "are infinite; correct or remove those rows."
        )
    if (np.abs(values) > np.finfo(np.float32).max).any():
        raise DataError(
            f"{where}: column '{name}' holds {values[np.nanargmax(np.abs(values))]:g}, beyond what 32-bit floating "
            "point can hold; scale the column."
        )
    return values


def _check_missing(
    column: pa.ChunkedArray, name: str, where: str, remedy: str = "fill them in or remove those rows"
) -> None:
    missing = column.is_null(nan_is_null=True)
    count = int(pc.sum(missing).as_py() or 0)
    if count:
        first = int(np.flatnonzero(missing.to_numpy())[0])
        raise DataError(
            f"{where}: column '{name}' has no value (empty or NaN) in row {first + 1}, and {count} row(s) in all have "
            f"none; {remedy}."
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
            f"point rounds by up to {rounding:.3g}: too much beside its spread. Leave it out with "
            "data.exclude_columns if it is an identity, or subtract its smallest value."
        )


def _example(column: pa.ChunkedArray) -> str:
    return example(column, lambda text: not is_number(text))


def _kind(kind: pa.DataType) -> str:
    if is_text(kind):
        return "text"
    return "true/false" if pa.types.is_boolean(kind) else "whole numbers"


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind

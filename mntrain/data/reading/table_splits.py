"""Splits of a table from a column that names the split of each row."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from mntrain.data.column_names import find_columns, possible_names
from mntrain.data.config import DataConfig
from mntrain.data.labels import listing
from mntrain.data.reading.split_names import split_of
from mntrain.data.reading.table_kinds import is_text
from mntrain.errors import ConfigError, DataError

Tables = Mapping[str, pa.Table]
_SPLITS = ("train", "validation", "test")


def find_split_column(tables: Tables, config: DataConfig, *, where: str) -> str | None:
    """Return the column that names the split of each row: the one asked for, or one called ``split``.

    A column that was not asked for counts only where some of its values are names of splits.

    Raises:
        ConfigError: the column asked for is not there, or the files are splits already.
        DataError: it holds other values beside names of splits, or contradicts the files.
    """
    names = list(next(iter(tables.values())).column_names)
    if config.split_column is not None:
        (name,) = find_columns((config.split_column,), names, field="data.split_column", where=where)
        if "all" not in tables:
            raise ConfigError(
                f"data.split_column is '{name}', but {where} has the splits {listing(list(tables))} already; "
                "leave it out."
            )
    else:
        fields = (config.target_column, config.exclude_columns, config.category_columns)
        used = {name for value in fields for name in possible_names(value)}
        found = next((name for name in names if name.lower() == "split" and name not in used), None)
        held = [table.column(found) for table in tables.values() if found in table.column_names] if found else []
        if found is None or not any(split_of(text) for column in held for text in _texts(column) if text is not None):
            return None
        name = found
    _check(tables, name, where)
    return name


def divide(tables: Tables, column: str | None, *, where: str) -> tuple[Tables, str | None]:
    """Divide the rows of a single file by ``column``; returns the splits, and a sentence on them if that was done.

    Raises:
        DataError: no row is of the train split.
    """
    if column is None or "all" not in tables:
        return tables, None
    table = tables["all"]
    splits = [split_of(text or "") for text in _texts(table.column(column))]
    if "train" not in splits:
        raise DataError(
            f"{where}: no row of the column '{column}' says train; name the rows to train on train, or leave it out "
            "with data.exclude_columns."
        )
    if set(splits) == {"train"}:
        return tables, None
    return {
        split: table.filter(pa.array([found == split for found in splits])) for split in _SPLITS if split in splits
    }, f"by the column '{column}'"


def _check(tables: Tables, column: str, where: str) -> None:
    for split, table in tables.items():
        if column not in table.column_names:
            continue
        texts = set(_texts(table.column(column)))
        others = sorted("no value" if text is None else repr(text) for text in texts if not split_of(text or ""))
        if others:
            raise DataError(
                f"{where}: the column '{column}' holds {listing(others)}, beside names of splits; it may hold train, "
                "validation (val, valid, dev) and test (testing, eval), in any case, or be left out with "
                "data.exclude_columns."
            )
        wrong = sorted(repr(text) for text in texts if split != "all" and split_of(text or "") != split)
        if wrong:
            raise DataError(
                f"{where}: the {split} split holds rows whose column '{column}' says {listing(wrong)}; correct the "
                "column, or leave it out with data.exclude_columns."
            )


def _texts(column: pa.ChunkedArray) -> list[str | None]:
    if not is_text(column.type):
        return [None if value is None else str(value) for value in column.to_pylist()]
    texts: list[str | None] = column.to_pylist()
    return texts

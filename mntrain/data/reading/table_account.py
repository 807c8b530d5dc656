"""Account of the columns of a table: role, kind, missing values and categories of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mntrain.data.account import ColumnAccount
from mntrain.data.config import MissingRule
from mntrain.data.reading.index_columns import counts_rows
from mntrain.data.reading.table_roles import Roles
from mntrain.data.tables import Categories


@dataclass(frozen=True, kw_only=True)
class ReadColumns:
    """Columns of all splits and what was made of them.

    Args:
        tables: split → its rows.
        roles: of the columns.
        categories: vocabulary of each category column.
        labels: class names of the target; None where targets are values.
        missing: what becomes of missing values.
    """

    tables: Mapping[str, pa.Table]
    roles: Roles
    categories: Categories
    labels: tuple[str, ...] | None
    missing: MissingRule


def account_columns(read: ReadColumns) -> tuple[ColumnAccount, ...]:
    """Account for every column, in the order of the file."""
    return tuple(_account(name, read) for name in read.roles.order)


def _account(name: str, read: ReadColumns) -> ColumnAccount:
    columns = [table.column(name) for table in read.tables.values() if name in table.column_names]
    missing = sum(_missing(column) for column in columns)
    if name == read.roles.split:
        return ColumnAccount(name=name, role="split", kind="text", note=read.roles.excluded[name])
    if name in read.roles.excluded:
        kind = str(columns[0].type)
        return ColumnAccount(name=name, role="excluded", kind=kind, missing=missing, note=read.roles.excluded[name])
    if name in read.roles.targets:
        kind = "value" if read.labels is None else "class"
        return ColumnAccount(name=name, role="target", kind=kind, categories=read.labels or ())
    if name in read.categories:
        note = "one-hot" + ("; a missing value is none of them" if missing else "")
        return ColumnAccount(
            name=name, role="feature", kind="category", missing=missing, categories=read.categories[name], note=note
        )
    notes = []
    if missing:
        notes.append(f"missing values become the {read.missing} of the training rows")
    if all(counts_rows(column) for column in columns):
        notes.append("goes up by one from row to row: exclude it if it only numbers the rows")
    elif all(_tells_rows_apart(column) for column in columns):
        notes.append("a whole number of its own in every row: exclude it if it is an identity")
    return ColumnAccount(name=name, role="feature", kind="number", missing=missing, note="; ".join(notes))


def _missing(column: pa.ChunkedArray) -> int:
    """Count the rows without a value; NaN is none."""
    if not pa.types.is_floating(column.type):
        return int(column.null_count)
    return int(np.isnan(column.to_numpy().astype(np.float64)).sum())


def _tells_rows_apart(column: pa.ChunkedArray) -> bool:
    return pa.types.is_integer(column.type) and not column.null_count and len(column.unique()) == len(column)

"""Summarize the columns of a table or manifest."""

from __future__ import annotations

import numpy as np

from mntrain.data.account import ColumnAccount
from mntrain.data.images import ImageData
from mntrain.data.summary.record import ColumnEntry
from mntrain.data.tables import RowArray, TableData

_CATEGORIES = 50


def column_entries(data: ImageData | TableData) -> list[ColumnEntry]:
    """Summarize each column; of numbers, the lowest, middle and highest training value that is not missing."""
    accounts = data.account.columns
    if isinstance(data, ImageData):
        return [_entry(column, None) for column in accounts]
    values = column_values(data)
    return [_entry(column, values.get(column.name)) for column in accounts or _own_columns(data)]


def column_values(data: TableData, split: str = "train") -> dict[str, RowArray]:
    """Map each column of numbers, and each target that is a value, to its values in a split: float32 [N]."""
    part = data.part(split)
    numbers = data.feature_names[: data.features - len(data.categories)]
    found = {name: part.inputs[:, index] for index, name in enumerate(numbers)}
    if data.label_names is None:
        targets = part.targets.reshape(len(part), -1)
        found |= {name: targets[:, index] for index, name in enumerate(data.target_names)}
    return found


def _own_columns(data: TableData) -> tuple[ColumnAccount, ...]:
    """Describe the columns where the source does not."""
    kind = "value" if data.label_names is None else "class"
    targets = [
        ColumnAccount(name=name, role="target", kind=kind, categories=data.label_names or ())
        for name in data.target_names
    ]
    features = [
        ColumnAccount(
            name=name,
            role="feature",
            kind="category" if name in data.categories else "number",
            categories=data.categories.get(name, ()),
        )
        for name in data.feature_names
    ]
    return (*targets, *features)


def _entry(column: ColumnAccount, values: RowArray | None) -> ColumnEntry:
    return ColumnEntry(
        name=column.name,
        role=column.role,
        kind=column.kind,
        missing=column.missing,
        distinct=len(column.categories),
        categories=list(column.categories[:_CATEGORIES]),
        range=None if values is None else _range(values),
        note=column.note,
    )


def _range(values: RowArray) -> list[float] | None:
    present = values[~np.isnan(values)]
    if not len(present):
        return None
    return [float(present.min()), float(np.median(present)), float(present.max())]

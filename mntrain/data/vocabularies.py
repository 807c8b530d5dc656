"""What is known of the columns of a table: only values of training rows count, whatever else the table holds.

Shapes: N rows, F columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from mntrain.data.account import SourceAccount
from mntrain.data.labels import listing
from mntrain.data.tables import UNKNOWN, Categories, SourceTable, TableSet
from mntrain.errors import DataError


def training_vocabularies(
    source: SourceTable, sets: Mapping[str, TableSet]
) -> tuple[dict[str, TableSet], dict[str, tuple[str, ...]], SourceAccount]:
    """Keep the categories of the training rows, in their order; the codes of all others become unknown.

    Args:
        source: with the vocabularies of all rows.
        sets: splits of it, with codes of those vocabularies.

    Returns:
        The splits with codes of the vocabularies of training, these vocabularies, and the source's account with them.

    Raises:
        DataError: a column has no value in any training row.
    """
    train = sets["train"].inputs
    empty = np.isnan(train[0])
    if empty.any():  # only then is a second look needed, which takes a pass over all rows
        empty = np.isnan(train).all(axis=0)
    if empty.any():
        raise _no_values([source.feature_names[column] for column in np.flatnonzero(empty)])
    if not source.categories:
        return dict(sets), {}, source.account
    inputs = {name: part.inputs.copy() for name, part in sets.items()}
    kept: dict[str, tuple[str, ...]] = {}
    notes: dict[str, str] = {}
    for column, (name, vocabulary) in enumerate(source.categories.items(), source.numbers):
        codes = {split: rows[:, column].astype(np.int64) for split, rows in inputs.items()}
        known = np.unique(codes["train"][codes["train"] != UNKNOWN])
        if not len(known):
            raise _no_values([name])
        kept[name] = tuple(vocabulary[code] for code in known)
        # The last place is that of UNKNOWN, -1.
        renumbered = np.full(len(vocabulary) + 1, UNKNOWN)
        renumbered[known] = np.arange(len(known))
        unknown = [
            f"{count} of {split}"
            for split, values in codes.items()
            for count in [int(((renumbered[values] == UNKNOWN) & (values != UNKNOWN)).sum())]
            if count
        ]
        if unknown:
            notes[name] = f"values that no training row has count as unknown: {listing(unknown)}"
        for split, values in codes.items():
            inputs[split][:, column] = renumbered[values]
    recoded = {name: TableSet(inputs=inputs[name], targets=part.targets) for name, part in sets.items()}
    return recoded, kept, _with_vocabularies(source.account, kept, notes)


def _no_values(names: list[str]) -> DataError:
    listed = listing([f"'{name}'" for name in names])
    return DataError(f"No training row has a value in {listed}; leave such columns out with data.exclude_columns.")


def _with_vocabularies(account: SourceAccount, kept: Categories, notes: Mapping[str, str]) -> SourceAccount:
    columns = tuple(
        replace(
            column,
            categories=kept[column.name],
            note="; ".join(note for note in (column.note, notes.get(column.name, "")) if note),
        )
        if column.role == "feature" and column.name in kept
        else column
        for column in account.columns
    )
    return replace(account, columns=columns)

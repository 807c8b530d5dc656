"""New labelled rows in the layout of an artifact.

Shapes: N rows, F columns, T targets.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pyarrow as pa

from mntrain.artifact_config import TableArtifactConfig
from mntrain.data.account import SourceAccount
from mntrain.data.column_names import as_names, find_columns
from mntrain.data.config import DataConfig
from mntrain.data.labels import listing
from mntrain.data.reading.new_rows import known_spellings, lay_out_rows
from mntrain.data.reading.table_categories import category_texts, codes_of, vocabulary_of
from mntrain.data.reading.table_columns import check_present
from mntrain.data.reading.table_files import find_tables
from mntrain.data.reading.table_reading import read_table
from mntrain.data.row_layout import RowLayout
from mntrain.data.tables import SourceTable, TableSet
from mntrain.errors import DataError


def load_new_rows(config: TableArtifactConfig, reading: DataConfig) -> SourceTable:
    """Load a table in the layout of the artifact: columns by name, categories by their text.

    Classes of the target are named as in the table; which of them the model knows is for the caller to tell.

    Raises:
        DataError: the table cannot be read, lacks a column, or has a row without a target.
        ConfigError: ``data.target_column`` names no column.
    """
    files = find_tables(Path(str(reading.path)).expanduser())
    where = f"'{reading.path}'"
    layout = config.layout
    texts = frozenset({*layout.categories, *(layout.targets if layout.labels is not None else ())})
    tables = {split: read_table(file, texts).table for split, file in files.splits.items()}
    if reading.target_column != config.experiment.data.target_column:
        columns = next(iter(tables.values())).column_names
        wanted = as_names(reading.target_column) or ()
        targets = find_columns(wanted, columns, field="data.target_column", where=where)
        if len(targets) != len(layout.targets):
            raise DataError(
                f"data.target_column names {len(targets)} column(s), but the model estimates {len(layout.targets)}: "
                f"{listing(layout.targets)}."
            )
        layout = dataclasses.replace(layout, targets=targets)
    splits, label_names = _values(tables, layout, where) if layout.labels is None else _classes(tables, layout, where)
    return SourceTable(
        splits=splits,
        feature_names=config.columns,
        target_names=layout.targets,
        label_names=label_names,
        categories=config.categories,
        account=SourceAccount(location=str(reading.path), splits=files.description, ignored=files.ignored),
    )


def _values(tables: dict[str, pa.Table], layout: RowLayout, where: str) -> tuple[dict[str, TableSet], None]:
    rows = {split: lay_out_rows(table, layout, where=where, labelled=True) for split, table in tables.items()}
    return {split: part.labelled() for split, part in rows.items()}, None


def _classes(tables: dict[str, pa.Table], layout: RowLayout, where: str) -> tuple[dict[str, TableSet], tuple[str, ...]]:
    (name,) = layout.targets
    lacking = [split for split, table in tables.items() if name not in table.column_names]
    if lacking:
        raise DataError(f"{where} has no column {name!r} with the classes, by which the model is to be judged.")
    check_present(
        {name: {split: table.column(name) for split, table in tables.items()}},
        where=where,
        remedy="label those rows or remove them",
    )
    known = layout.labels or ()
    texts = {
        split: known_spellings(category_texts(table.column(name), name, where=where, decimals=True), known)
        for split, table in tables.items()
    }
    names = vocabulary_of(texts, name, where=where)
    splits = {
        split: TableSet(
            inputs=lay_out_rows(table, layout, where=where, labelled=False).inputs,
            targets=codes_of(texts[split], names).astype(np.int64),
        )
        for split, table in tables.items()
    }
    return splits, names

"""New rows in the columns of an artifact.

Shapes: N rows, F columns.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pyarrow as pa

from mntrain.artifact_config import TableArtifactConfig
from mntrain.data.account import SourceAccount
from mntrain.data.column_names import as_names, find_columns
from mntrain.data.config import DataConfig
from mntrain.data.loading import load_source
from mntrain.data.reading.local_path import local_path
from mntrain.data.reading.new_rows import known_classes, lay_out_rows
from mntrain.data.reading.table_categories import plain_texts
from mntrain.data.reading.table_files import find_tables
from mntrain.data.reading.table_reading import read_table
from mntrain.data.row_layout import RowLayout
from mntrain.data.tables import SourceTable
from mntrain.errors import ConfigError, DataError
from mntrain.networks.record import NetworkRecord


def load_new_rows(config: TableArtifactConfig, reading: DataConfig) -> SourceTable:
    """Load a table, or a folder with one for each split, in the columns of an artifact, which are found by name.

    Classes that the model does not know come after those that it knows.

    Raises:
        ConfigError: other targets are named than the model has.
        DataError: the table cannot be read, lacks a column, or its rows do not fit the model.
    """
    path = local_path(str(reading.path))
    if config.network is not None:
        return _features(config, config.network, reading)
    files = find_tables(path, trained=False)
    layout, named = config.layout, as_names(reading.target_column) if reading.target_column is not None else None
    # What are texts to the model are texts here, too: 007 stays 007.
    texts = frozenset({*layout.categories, *((named or layout.targets) if layout.labels is not None else ())})
    tables = {split: read_table(file, texts).table for split, file in files.splits.items()}
    if named is not None:
        columns = next(iter(tables.values())).column_names
        layout = _renamed(layout, find_columns(named, columns, field="data.target_column", where=f"'{path}'"))
    if layout.labels is not None:
        unknown = _unknown_classes(tables, layout.targets[0], layout.labels)
        layout = dataclasses.replace(layout, labels=(*layout.labels, *unknown))
    rows = {
        split: lay_out_rows(table, layout, where=f"'{files.splits[split]}'", labelled=True)
        for split, table in tables.items()
    }
    return SourceTable(
        splits={split: part.labelled() for split, part in rows.items()},
        feature_names=config.columns,
        target_names=layout.targets,
        label_names=layout.labels,
        categories=config.categories,
        account=SourceAccount(
            location=str(path),
            ignored=files.ignored,
            columns=tuple(column for part in rows.values() for column in part.account.columns),
        ),
    )


def _features(config: TableArtifactConfig, network: NetworkRecord, reading: DataConfig) -> SourceTable:
    """Open another feature store of the network that an artifact's features come from.

    Raises:
        DataError: no store is there, or its features come from another network.
    """
    source = load_source(DataConfig(source="features", path=reading.path))
    assert isinstance(source, SourceTable)
    assert source.origin is not None
    found = source.origin.network
    arrays = "arrays" in (found.kind, network.kind)  # whose digest is that of the features themselves
    if found.features != network.features or (not arrays and found.sha256 != network.sha256):
        raise DataError(
            f"'{reading.path}' holds {found.features} features of the network {found.name} ({found.sha256[:12]}…), but "
            f"the head takes {network.features} features of {network.name} ({network.sha256[:12]}…); write the "
            "features of that network with `mntrain features`."
        )
    return dataclasses.replace(source, feature_names=config.columns, target_names=config.targets)


def _renamed(layout: RowLayout, targets: tuple[str, ...]) -> RowLayout:
    """Layout with the names that the targets have in the new data."""
    if len(targets) != len(layout.targets):
        raise ConfigError(
            f"data.target_column names {len(targets)} column(s), but the model has {len(layout.targets)} target(s) "
            f"({', '.join(layout.targets)}); name as many, in the same order."
        )
    return dataclasses.replace(layout, targets=targets)


def _unknown_classes(tables: Mapping[str, pa.Table], target: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """Classes in the column ``target`` that are none of the ``known`` ones, sorted."""
    found: set[str] = set()
    for table in tables.values():
        if target in table.column_names:
            texts = known_classes(plain_texts(table.column(target)), known)
            found |= {text for text in texts if text is not None}
    return tuple(sorted(found - set(known)))

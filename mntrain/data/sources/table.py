"""Rows of numbers and categories from text and parquet files."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from mntrain.data.account import SourceAccount
from mntrain.data.column_names import possible_names
from mntrain.data.config import DataConfig
from mntrain.data.reading.local_path import local_path
from mntrain.data.reading.table_account import ReadColumns, account_columns
from mntrain.data.reading.table_categories import category_texts, codes_of, vocabulary_of
from mntrain.data.reading.table_columns import check_present, in_split, read_numbers, read_targets, refuse_constant
from mntrain.data.reading.table_files import find_tables
from mntrain.data.reading.table_kinds import Columns, feature_kinds
from mntrain.data.reading.table_reading import read_table
from mntrain.data.reading.table_roles import assign_roles
from mntrain.data.reading.table_splits import divide, find_split_column
from mntrain.data.tables import Categories, RowArray, SourceTable, TableSet


def load(config: DataConfig) -> SourceTable:
    """Load the file ``config.path``; or the folder's files named train, validation (val, valid, dev) and test.

    Raises:
        DataError: nothing can be read there, the target is not named, or columns cannot be used.
        ConfigError: there is no such column, or a column is given two roles.
    """
    path = local_path(str(config.path))
    where = f"'{path}'"
    files = find_tables(path)
    read = {split: read_table(file, possible_names(config.category_columns)) for split, file in files.splits.items()}
    tables: Mapping[str, pa.Table] = {split: part.table for split, part in read.items()}
    split_column = find_split_column(tables, config, where=where)
    roles = assign_roles(tables, config, split_column, where=where)
    tables, divided = divide(tables, split_column, where=where)
    features = {name: _columns(tables, name) for name in roles.features}
    kinds = feature_kinds(features, roles.categories, where=where)
    numbers = {name: columns for name, columns in features.items() if kinds[name] == "number"}
    names = {name: columns for name, columns in features.items() if kinds[name] == "category"}
    if config.missing == "refuse":
        check_present(features, where=where)
    vocabularies, coded = _categories(names, where)
    inputs = {split: np.empty((table.num_rows, 0), np.float32) for split, table in tables.items()}
    if numbers:
        inputs = read_numbers(numbers, where=where)
    missing = any(np.isnan(part).any() for part in inputs.values())
    targets, label_names = read_targets(
        {name: _columns(tables, name) for name in roles.targets}, config.target, where=where
    )
    return SourceTable(
        splits={
            split: TableSet(
                inputs=np.concatenate([inputs[split], *coded.get(split, [])], axis=1), targets=targets[split]
            )
            for split in tables
        },
        feature_names=(*numbers, *names),
        target_names=roles.targets,
        label_names=label_names,
        categories=vocabularies,
        imputation=config.missing if missing and config.missing != "refuse" else None,
        account=SourceAccount(
            location=str(path),
            layout=" and ".join(dict.fromkeys(part.layout for part in read.values())),
            splits=divided or files.description,
            ignored=files.ignored,
            columns=account_columns(
                ReadColumns(
                    tables=tables, roles=roles, categories=vocabularies, labels=label_names, missing=config.missing
                )
            ),
        ),
    )


def _columns(tables: Mapping[str, pa.Table], name: str) -> Columns:
    return {split: table.column(name) for split, table in tables.items()}


def _categories(columns: Mapping[str, Columns], where: str) -> tuple[Categories, dict[str, list[RowArray]]]:
    """Read category columns: their vocabularies over all splits, and split → codes [N, 1] of each column."""
    vocabularies: dict[str, tuple[str, ...]] = {}
    coded: dict[str, list[RowArray]] = {}
    constant = []
    for name, splits in columns.items():
        texts = {split: category_texts(column, name, where=in_split(where, split)) for split, column in splits.items()}
        vocabularies[name] = vocabulary_of(texts, name, where=where)
        if len(vocabularies[name]) == 1 and not any(None in part for part in texts.values()):
            constant.append(name)
        for split, part in texts.items():
            coded.setdefault(split, []).append(codes_of(part, vocabularies[name])[:, None])
    refuse_constant(constant, where)
    return vocabularies, coded

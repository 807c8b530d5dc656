"""Roles of the columns of a table: target, feature, or left out; the target is never guessed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from mntrain.data.column_names import as_names, find_columns
from mntrain.data.config import DataConfig
from mntrain.data.labels import ends, listing
from mntrain.data.reading.index_columns import index_columns
from mntrain.errors import ConfigError, DataError

TARGET_NAMES = ("y", "target", "label", "class")
"""Names that a target has where the configuration names none."""
_LIKE_TARGETS = re.compile(rf"({'|'.join(TARGET_NAMES)})([ _.-]?\d+|[ _.-].*)?", re.IGNORECASE)
Tables = Mapping[str, pa.Table]


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Roles of the columns of all splits.

    Args:
        targets: columns to estimate, or the one to tell apart.
        features: all others that are used, in the order of the file.
        categories: those of the features that the configuration calls categories.
        excluded: column that is left out → why.
        order: all columns in the order of the file.
        split: column that names the split of each row.
    """

    targets: tuple[str, ...]
    features: tuple[str, ...]
    categories: tuple[str, ...]
    excluded: Mapping[str, str]
    order: tuple[str, ...]
    split: str | None = None


def assign_roles(tables: Tables, config: DataConfig, split: str | None = None, *, where: str) -> Roles:
    """Give every column its role.

    Args:
        tables: split → its rows.
        config: names of targets, categories and columns to exclude.
        split: column that names the split of each row, which is no feature.
        where: the file or folder, for messages.

    Raises:
        ConfigError: the configuration names a column that is not there, or gives one two roles.
        DataError: the target is not named and cannot be told, splits differ in their columns, or no feature is left.
    """
    names = _all_names(tables)
    if len(names) == 1:
        raise _single(names[0], where)
    targets = find_columns(as_names(config.target_column) or (), names, field="data.target_column", where=where)
    categories = find_columns(
        as_names(config.category_columns) or (), names, field="data.category_columns", where=where
    )
    asked = find_columns(as_names(config.exclude_columns) or (), names, field="data.exclude_columns", where=where)
    _check_once(targets, categories, asked)
    excluded = dict.fromkeys(asked, "excluded by data.exclude_columns")
    if split is not None:
        _check_once(targets, categories, asked, split)
        excluded[split] = "names the split of each row"
    others = [name for name in names if name not in (*targets, *categories, *asked, split)]
    excluded |= index_columns(list(tables.values()), others, where=where)
    kept = [name for name in names if name not in excluded]
    targets = targets or (_usual_target(kept, where),)
    features = tuple(name for name in kept if name not in targets)
    if not features:
        raise _single(kept[0], where)
    _check_splits_agree(tables, kept, where)
    return Roles(
        targets=targets, features=features, categories=categories, excluded=excluded, order=tuple(names), split=split
    )


def _single(name: str, where: str) -> DataError:
    return DataError(
        f"{where} has the single column '{name}', apart from those left out; a table needs at least one column "
        "beside the target, and a comma, a semicolon or a tab between its columns."
    )


def _all_names(tables: Tables) -> list[str]:
    """List the columns of all splits, those of the training rows first."""
    first = tables["train" if "train" in tables else "all"]
    return list(
        dict.fromkeys([*first.column_names, *(name for table in tables.values() for name in table.column_names)])
    )


def _check_once(
    targets: Sequence[str], categories: Sequence[str], excluded: Sequence[str], split: str | None = None
) -> None:
    if split in (*targets, *categories, *excluded):
        raise ConfigError(f"data.split_column names '{split}', which another field names, too; leave one of them out.")
    for name in targets:
        if name in excluded:
            raise ConfigError(
                f"data.exclude_columns names '{name}', which is data.target_column; leave one of them out."
            )
        if name in categories:
            raise ConfigError(
                f"data.category_columns names '{name}', which is data.target_column; set data.target to class instead."
            )
    for name in categories:
        if name in excluded:
            raise ConfigError(
                f"data.category_columns and data.exclude_columns both name '{name}'; leave it out of one of them."
            )


def _usual_target(names: Sequence[str], where: str) -> str:
    """Return the one column that is called like a target."""
    usual = [name for name in names if name.lower() in TARGET_NAMES]
    like = [name for name in names if _LIKE_TARGETS.fullmatch(name)]
    if len(usual) == 1 and like == usual:
        return usual[0]
    fault = (
        f"several may be the target ({listing(like)})"
        if like
        else f"none is called {', '.join(TARGET_NAMES[:-1])} or {TARGET_NAMES[-1]}"
    )
    raise DataError(
        f"{where} has the columns {ends(names)}, of which {fault}; name the column to learn with "
        "data.target_column, or several of them as '[a, b]'."
    )


def _check_splits_agree(tables: Tables, names: Sequence[str], where: str) -> None:
    for split, table in tables.items():
        lacking = [name for name in names if name not in table.column_names]
        if lacking:
            raise DataError(
                f"The files in {where} have different columns ({listing(lacking)}, missing in the {split} split); give "
                "every split the same columns, or leave some out with data.exclude_columns."
            )

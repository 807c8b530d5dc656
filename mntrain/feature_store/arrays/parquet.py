"""Features in a .parquet file: a column of lists, or a column for each; read a batch of rows at a time.

Shapes: N rows, d features.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from mntrain.data.column_names import as_names, find_columns
from mntrain.data.reading.index_columns import index_columns, may_number_rows
from mntrain.errors import ConfigError, DataError
from mntrain.feature_store.arrays.parts import ArrayPart, ArraySet, check_pair, rows_of_a_block
from mntrain.regular_files import regular

_LABELS = ("labels", "label", "class", "target", "y")
_LISTS = ("features", "feature", "embedding", "embeddings")
_SPLIT = "split"


def read_parquet(path: Path, options: Mapping[str, Any]) -> ArraySet:
    """Open a table of features.

    Args:
        path: the file.
        options: fields of ``data``; ``target_column`` and ``split_column`` name those columns, ``exclude_columns``
            those that are no features.

    Raises:
        DataError: the file is damaged, or holds no features and labels.
        ConfigError: a column is named that is not there.
    """
    try:
        file = pq.ParquetFile(regular(path))
        names = list(file.schema_arrow.names)
        label = _named(options.get("target_column"), "target_column", names, path) or _first(_LABELS, names)
        split = _named(options.get("split_column"), "split_column", names, path) or _first((_SPLIT,), names)
        if label is None:
            raise DataError(
                f"{path} has no column of labels ({', '.join(_LABELS)}); name it with --data.target_column."
            )
        excluded = _excluded(file, options, taken=(label, split), where=str(path))
        columns = _feature_columns(file.schema_arrow, taken=(label, split, *excluded), where=str(path))
        small = file.read(columns=[label, *([split] if split else [])])
        first = next(file.iter_batches(batch_size=1, columns=columns), None)
        width = 0 if first is None else _rows(first, str(path)).shape[1]
        found = _values(small.column(label), f"{path}, {label}")
        words = _values(small.column(split), f"{path}, {split}") if split else None
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path} cannot be read ({' '.join(str(error).split())}); write it again.") from error
    check_pair(str(path), (len(found), width), found, words)
    part = ArrayPart(
        where=str(path),
        width=width,
        labels=found,
        words=words,
        blocks=partial(_blocks, path, columns, width),
        columns=tuple(columns),
        excluded=excluded,
    )
    return ArraySet(parts={"all": part})


def _blocks(path: Path, columns: Sequence[str], width: int) -> Iterator[NDArray[Any]]:
    file = pq.ParquetFile(path)
    for batch in file.iter_batches(batch_size=rows_of_a_block(width, 4), columns=list(columns)):
        rows = _rows(batch, str(path))
        if rows.shape[1] != width:
            raise DataError(f"{path} has rows of {width} features, and others of {rows.shape[1]}; give all the same.")
        yield rows


def _rows(batch: pa.RecordBatch, where: str) -> NDArray[Any]:
    """Turn a batch into an array [B, d]; a missing value becomes NaN, which is refused later."""
    if batch.num_columns > 1 or not _is_list(batch.schema.types[0]):
        return np.stack([column.cast(pa.float64()).to_numpy(zero_copy_only=False) for column in batch.columns], axis=1)
    lists = batch.column(0)
    values = lists.flatten().cast(pa.float64()).to_numpy(zero_copy_only=False)
    if lists.null_count or not len(lists) or len(values) % len(lists):
        raise DataError(f"{where}: the lists of features differ in length, or some are missing; give each row as many.")
    if not pa.types.is_fixed_size_list(lists.type):
        lengths = np.diff(lists.offsets.to_numpy())
        if (lengths != lengths[0]).any():
            raise DataError(f"{where}: lists have {lengths.min()} to {lengths.max()} features; give each row as many.")
    return np.asarray(values).reshape(len(lists), -1)


def _excluded(
    file: pq.ParquetFile, options: Mapping[str, Any], *, taken: tuple[str | None, ...], where: str
) -> dict[str, str]:
    """Find the columns that are no features, as in any table; those that may number the rows are read."""
    schema = file.schema_arrow
    names = list(schema.names)
    asked = find_columns(
        as_names(options.get("exclude_columns")) or (), names, field="data.exclude_columns", where=where
    )
    others = [name for name in names if name not in (*taken, *asked) and may_number_rows(schema, name)]
    found = dict.fromkeys(asked, "excluded by data.exclude_columns")
    if others:
        # With the first column of the file, since a column without a name is an index there alone.
        table = file.read(columns=[name for name in names if name in others or name == names[0]])
        found |= index_columns([table], others, where=where)
    return found


def _feature_columns(schema: pa.Schema, *, taken: tuple[str | None, ...], where: str) -> list[str]:
    lists = [
        field.name for field in schema if field.name in _LISTS and field.name not in taken and _is_list(field.type)
    ]
    if lists:
        return lists[:1]
    others = [field for field in schema if field.name not in taken]
    wrong = [
        field.name for field in others if not (pa.types.is_floating(field.type) or pa.types.is_integer(field.type))
    ]
    if wrong or not others:
        raise DataError(
            f"{where} has no list column called features, and the column {wrong[0] if wrong else 'of labels'!r} holds "
            "no numbers; give one list column, or a column of numbers for each feature."
        )
    return [field.name for field in others]


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _values(column: pa.ChunkedArray, where: str) -> NDArray[Any]:
    if column.null_count:
        raise DataError(f"{where} lacks {column.null_count} values; give one for each row.")
    return np.asarray(column.to_pylist())


def _first(candidates: Sequence[str], names: Sequence[str]) -> str | None:
    return next((name for name in candidates if name in names), None)


def _named(name: Any, field: str, names: Sequence[str], path: Path) -> str | None:
    if name is not None and name not in names:
        raise ConfigError(f"data.{field} is {name!r}, but {path} has the columns {', '.join(names[:8])}.")
    return None if name is None else str(name)

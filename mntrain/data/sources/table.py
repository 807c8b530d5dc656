"""Rows of numbers from .csv and .parquet files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from mntrain.data.column_names import as_names, find_columns
from mntrain.data.config import DataConfig
from mntrain.data.labels import listing
from mntrain.data.reading.split_names import SPLIT_NAMES
from mntrain.data.reading.table_columns import is_number, read_features, read_targets
from mntrain.data.tables import SourceTable, TableSet
from mntrain.errors import ConfigError, DataError
from mntrain.regular_files import regular

_KINDS = (".csv", ".parquet")


def load(config: DataConfig) -> SourceTable:
    """Load the file ``config.path``; or the folder's files named train, validation (val, valid, dev) and test.

    A folder with a single file, whatever its name, counts as that file.

    Raises:
        DataError: nothing can be read there, or the columns or the target cannot be used.
        ConfigError: there is no such column, or folds are asked of data that is split already.
    """
    path = Path(str(config.path)).expanduser()
    tables = {name: _read(file) for name, file in _files(path).items()}
    names = tables["train" if "train" in tables else "all"].column_names
    for split, table in tables.items():
        if table.column_names != names:
            differing = sorted(set(table.column_names) ^ set(names)) or ["their order"]
            raise DataError(
                f"The files in '{path}' have different columns ({listing(differing)}, {split} split); give every split "
                "the same columns in the same order."
            )
    target = _target_name(config, names, path)
    features = tuple(name for name in names if name != target)
    if not features:
        raise DataError(
            f"'{path}' has the single column '{target}'; a table needs at least one column beside the target, and "
            "commas between its columns."
        )
    inputs = read_features({name: table.select(features) for name, table in tables.items()}, where=f"'{path}'")
    targets, label_names = read_targets(
        {name: table.column(target) for name, table in tables.items()}, target, config.target, where=f"'{path}'"
    )
    return SourceTable(
        splits={name: TableSet(inputs=inputs[name], targets=targets[name]) for name in tables},
        feature_names=features,
        target_names=(target,),
        label_names=label_names,
    )


def _files(path: Path) -> dict[str, Path]:
    """Map each split to its file."""
    if path.is_file():
        return {"all": path}
    if not path.is_dir():
        fault = "is a pipe, a socket or a device" if path.exists() else "does not exist"
        raise DataError(f"'{path}' {fault}; set data.path to a .csv or .parquet file, or to a folder of them.")
    files = sorted(file for file in path.iterdir() if file.suffix.lower() in _KINDS and not file.name.startswith("."))
    if len(files) == 1:
        return {"all": files[0]}
    named = [(SPLIT_NAMES.get(file.stem.lower()), file) for file in files]
    files_of_splits = {name: file for name, file in named if name is not None}
    if "train" not in files_of_splits or len(files_of_splits) < len(files):
        names = listing([file.name for file in files]) or "nothing of that kind"
        raise DataError(
            f"'{path}' holds {names}; a folder must hold one .csv or .parquet file, or files named train, validation "
            "and test, one of each."
        )
    return files_of_splits


def _read(file: Path) -> pa.Table:
    try:
        if file.suffix.lower() == ".csv":
            table = pyarrow.csv.read_csv(regular(file))
        elif file.suffix.lower() == ".parquet":
            table = pyarrow.parquet.ParquetFile(regular(file)).read()
        else:
            raise ConfigError(f"data.path is '{file}', which is no table; use a {' or a '.join(_KINDS)} file.")
    # UnicodeDecodeError: names that are not UTF-8 text.
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise DataError(
            f"'{file}' cannot be read as a table ({reason}); it may be empty, damaged, or of another kind than its "
            "name says."
        ) from error
    twice = [name for name, count in Counter(table.column_names).items() if count > 1]
    if twice:
        raise DataError(f"'{file}' has several columns called {listing(twice)}; give every column a name of its own.")
    # Columns that pandas adds to those of a data frame.
    table = table.select([name for name in table.column_names if not name.startswith("__index_level_")])
    if table.num_rows == 0 or table.num_columns == 0:
        raise DataError(f"'{file}' holds no rows; every file needs at least one row below the line of column names.")
    if file.suffix.lower() == ".csv" and all(is_number(name) for name in table.column_names):
        raise DataError(
            f"The first line of '{file}' holds numbers ({listing(table.column_names)}); it must hold the names of the "
            "columns, so put them above."
        )
    return table


def _target_name(config: DataConfig, names: list[str], path: Path) -> str:
    if config.target_column is None:
        return "y" if "y" in names else str(names[-1])
    wanted = as_names(config.target_column) or ()
    (target,) = find_columns(wanted, names, field="data.target_column", where=f"'{path}'")
    return target

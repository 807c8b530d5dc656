"""Images in any format of Hugging Face ``datasets``: folders, files and data sets on the hub."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from mntrain.data.config import DataConfig
from mntrain.data.hugging_face import DatasetNotFoundError, DatasetsError, datasets
from mntrain.data.images import ImageSet, SourceImages
from mntrain.data.reading.decoding import DecodeOptions, decode_column
from mntrain.data.reading.image_columns import find_image_column, find_label_column, read_labels
from mntrain.data.reading.pixels import match_channels
from mntrain.data.reading.split_names import SPLIT_NAMES
from mntrain.errors import ConfigError, DataError
from mntrain.regular_files import regular

_BUILDERS = {".parquet": "parquet", ".arrow": "arrow", ".json": "json", ".jsonl": "json", ".csv": "csv"}


def load(config: DataConfig) -> SourceImages:
    """Load the labelled images at ``config.path``, a local folder or file or a name on the hub.

    Splits named train, validation (val, valid, dev) and test are kept; splits of other names beside a train
    split are left out. Without a train split, all splits are joined in their order. ``config.test_split`` names the
    split that is tested on where it is called otherwise, or where the one called test has no labels.

    Raises:
        DataError: nothing can be read there, or the images or labels cannot be used.
        ConfigError: a column, subset or split is named wrongly, or several columns would do.
    """
    path = str(config.path)
    with _quiet():
        splits = _own_splits(_open(path, config.subset), path, config.test_split)
        features = next(iter(splits.values())).features
        where = f"'{path}'"
        image = find_image_column(features, config.image_column, where=where)
        label = find_label_column(features, config.label_column, image=image, where=where)
        for name, table in splits.items():
            if table.num_rows == 0:
                raise DataError(f"{where}: the {name} split holds no images; every split needs at least one.")
        labels, label_names = read_labels(
            {name: _column(table, label) for name, table in splits.items()}, features[label], where=where
        )
        options = DecodeOptions(color=config.color, size=config.image_size, fit=config.image_fit)
        images = {
            name: decode_column(table, image, options, where=f"{where}, {name} split") for name, table in splits.items()
        }
    images = match_channels(images)
    return SourceImages(
        splits={name: ImageSet(images=images[name], labels=labels[name]) for name in splits},
        label_names=label_names,
    )


def _open(path: str, subset: str | None) -> datasets.DatasetDict:
    local = Path(path).expanduser()
    if not local.exists() and _looks_local(path):
        raise DataError(f"'{path}' does not exist; check data.path (a folder, a file, or a name on the hub).")
    if local.exists() and not local.is_dir() and not local.is_file():
        raise DataError(f"'{path}' is a pipe, a socket or a device; set data.path to a file or a folder.")
    try:
        if local.is_file():
            if subset is not None:
                raise ConfigError(f"data.subset is {subset!r}, but '{path}' is a single file; leave it out.")
            return _open_file(local)
        if local.is_dir() and any((local / name).is_file() for name in ("dataset_dict.json", "state.json")):
            for file in local.rglob("*"):
                regular(file)
            opened = datasets.load_from_disk(str(local))
        else:
            opened = datasets.load_dataset(str(local) if local.is_dir() else path, subset)
    # IndexError: an empty split saved to disk; RuntimeError: a folder with a loading script, which is not run.
    except (DatasetsError, OSError, ValueError, IndexError, RuntimeError) as error:
        raise _unreadable(path, local.exists(), error) from error
    return opened if isinstance(opened, datasets.DatasetDict) else datasets.DatasetDict({"all": opened})


def _open_file(file: Path) -> datasets.DatasetDict:
    builder = _BUILDERS.get(file.suffix.lower())
    if builder is None:
        raise ConfigError(
            f"data.path is '{file}', a file of unknown kind '{file.suffix}'; use {', '.join(_BUILDERS)}, or a folder."
        )
    tables: datasets.DatasetDict = datasets.load_dataset(builder, data_files={"train": str(file)})
    return tables


def _looks_local(path: str) -> bool:
    """Tell if ``path`` can only be meant as a path: hub names are NAME or OWNER/NAME."""
    return path.startswith((".", "/", "~")) or path.count("/") > 1 or Path(path).suffix.lower() in _BUILDERS


def _own_splits(tables: datasets.DatasetDict, path: str, test: str | None) -> dict[str, datasets.Dataset]:
    named = {SPLIT_NAMES[str(name)]: table for name, table in tables.items() if str(name) in SPLIT_NAMES}
    if test is not None:
        if test not in tables or "train" not in named or tables[test] is named["train"]:
            raise ConfigError(
                f"data.test_split is {test!r}, but '{path}' has the splits {', '.join(map(str, tables))}; name one "
                "that stands beside a train split, or leave it out."
            )
        named = {name: table for name, table in named.items() if table is not tables[test]} | {"test": tables[test]}
    if "train" not in named:
        return {"all": _join(tables, path)}
    # Data without splits of its own arrives as a single split train; it is recorded as the whole.
    return {"all": named["train"]} if set(tables) == {"train"} else named


def _join(tables: datasets.DatasetDict, path: str) -> datasets.Dataset:
    parts = list(tables.values())
    try:
        return parts[0] if len(parts) == 1 else datasets.concatenate_datasets(parts)
    except ValueError as error:
        raise DataError(
            f"'{path}' has no train split, and its splits {', '.join(map(str, tables))} have different "
            "columns, so they cannot be joined; set data.path to one of its files."
        ) from error


def _column(table: datasets.Dataset, name: str) -> pa.ChunkedArray:
    return table.select_columns([name]).with_format("arrow")[:].column(name)


def _unreadable(path: str, exists: bool, error: BaseException) -> DataError:
    cause = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    reason = (str(cause).strip().splitlines() or [type(cause).__name__])[0].rstrip(".")
    if isinstance(error, ConnectionError):
        return DataError(
            f"'{path}' is no local folder or file, and the Hugging Face hub cannot be reached ({reason}); "
            "check data.path or the connection."
        )
    if isinstance(error, DatasetNotFoundError) or not exists:
        return DataError(
            f"'{path}' is neither a local folder or file nor a readable data set on the Hugging Face hub "
            f"({reason}); check data.path."
        )
    return DataError(
        f"'{path}' cannot be read ({type(cause).__name__}: {reason}); its files may be damaged, empty, or "
        "not belong together: set data.path to a single file, or repair the folder."
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the bars and log lines of ``datasets`` while the block runs: errors are told in our own messages."""
    loggers = {logging.getLogger(name): logging.getLogger(name).level for name in ("datasets", "huggingface_hub")}
    bars = datasets.are_progress_bars_disabled()
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        for logger, level in loggers.items():
            logger.setLevel(level)
        if not bars:
            datasets.enable_progress_bars()

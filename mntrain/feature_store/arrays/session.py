"""A feature store from foreign arrays, from the options of a command to the finished store.

Shapes: N rows of a split, B rows of a block, d features, C classes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mntrain.atomic_files import folder_atomically
from mntrain.data.config import DataConfig
from mntrain.data.split_record import SPLITS
from mntrain.errors import ConfigError, DataError
from mntrain.feature_store.arrays.opening import open_arrays
from mntrain.feature_store.arrays.parts import ArrayPart, ArraySet, as_float32
from mntrain.feature_store.arrays.splitting import ArraySplits, split_arrays
from mntrain.feature_store.report import FeaturesReport
from mntrain.feature_store.store import RECORD, FeatureSplit, open_store
from mntrain.feature_store.writing import StoreContent, store_digest, write_description
from mntrain.heads.classifier import LinearClassifier
from mntrain.networks.options import NetworkOptions
from mntrain.networks.record import NetworkRecord

PREFIX = "arrays:"
_ALLOWED = frozenset(
    {
        "validation_fraction",
        "test_fraction",
        "split_seed",
        "train_limit",
        "target_column",
        "split_column",
        "exclude_columns",
    }
)


@dataclass(frozen=True, kw_only=True)
class ArrayOptions:
    """Arrays and place of a store.

    Args:
        network: whose source is ``arrays:PLACE``, and which has no other option.
        store: folder to write.
        data: fields of ``DataConfig`` that are given: fractions and seed of the splits, columns of a table.
        overwrite: replace a store that is there.

    Raises:
        ConfigError: an option has no use for arrays.
    """

    network: NetworkOptions
    store: Path
    data: Mapping[str, Any] = field(default_factory=dict)
    overwrite: bool = False

    def __post_init__(self) -> None:
        if self.network != NetworkOptions(source=self.network.source):
            raise ConfigError("Options of a network are given, but arrays are features already; leave them out.")
        useless = sorted(self.data.keys() - _ALLOWED)
        if useless:
            raise ConfigError(
                f"--data.{useless[0]} has no use for arrays, which are features already; leave it out. They take "
                f"{', '.join(f'--data.{name}' for name in sorted(_ALLOWED))}."
            )

    @property
    def place(self) -> Path:
        """File or folder of the arrays."""
        return Path(self.network.source.removeprefix(PREFIX)).expanduser()

    def refuse_views(self, crops: int, augmentation: Mapping[str, Any]) -> None:
        """Refuse several views.

        Raises:
            ConfigError: there are some.
        """
        if crops != 1 or augmentation:
            raise ConfigError("--crops and --augmentation.* change images, and arrays have none; leave them out.")


def write_arrays(options: ArrayOptions) -> FeaturesReport:
    """Write a feature store from foreign features; large ones are read and written a block at a time.

    Raises:
        ConfigError: nothing lies there, or the folder of the store holds something.
        DataError: arrays do not fit each other, a value is not finite, or the store cannot be written.
    """
    place, path, started = options.place, options.store.resolve(), time.perf_counter()
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        if not (path / RECORD).is_file():
            raise ConfigError(f"{path} is there already and is no feature store; choose another folder.")
        if not options.overwrite:
            raise ConfigError(f"{path} is there already; choose another folder, or replace it with --overwrite.")
    arrays = open_arrays(place, options.data)
    width = _width(arrays)
    config = DataConfig(source="table", path=str(place), target="class", **options.data)
    _check_weight(arrays, width)
    splits = split_arrays(arrays, config)
    classifier = _classifier(arrays, width, len(splits.label_names))
    try:
        with folder_atomically(path) as folder:
            written = _write_rows(folder, arrays, splits, width)
            network = NetworkRecord(
                kind="arrays", name=str(place.resolve()), sha256=store_digest(written), features=width, pixels=None
            )
            write_description(
                folder,
                StoreContent(
                    network=network,
                    label_names=splits.label_names,
                    splits=written,
                    classifier=classifier,
                    data={"config": config.to_dict(), "split": splits.record.to_json(), **_columns(arrays)},
                ),
            )
    except OSError as error:
        raise DataError(
            f"Feature store {path} cannot be written: {error.strerror or error}; make room, or choose another folder."
        ) from error
    words = "the arrays have none" if classifier is None else f"the arrays' own, of {classifier.classes} classes"
    rows = sum(len(part) for part in written.values())
    return FeaturesReport(
        store=open_store(path), classifier=words, computed=rows, seconds=time.perf_counter() - started
    )


def _write_rows(folder: Path, arrays: ArraySet, splits: ArraySplits, width: int) -> dict[str, FeatureSplit]:
    """Write the rows of every part to their places, in one pass; returns the mapped splits."""
    rows: dict[str, NDArray[np.float32]] = {}
    for split in SPLITS:
        (folder / split).mkdir()
        file = folder / split / "features.npy"
        shape = (len(splits.labels[split]), width)
        rows[split] = np.lib.format.open_memmap(file, mode="w+", dtype=np.float32, shape=shape)
        with file.open("r+b") as stream:
            os.posix_fallocate(stream.fileno(), 0, file.stat().st_size)
        np.save(folder / split / "labels.npy", splits.labels[split])
    for name, part in arrays.parts.items():
        start = 0
        for block in part.blocks():
            values = as_float32(block, part.where, start)
            stop = start + len(values)
            for split, positions in splits.targets[name].items():
                low, high = np.searchsorted(positions, [start, stop])
                rows[split][low:high] = values[positions[low:high] - start]
            start = stop
        if start != len(part):
            raise DataError(f"{part.where} has {start} rows of features and {len(part)} labels; give one for each.")
    for values in rows.values():
        assert isinstance(values, np.memmap)
        values.flush()
    return {split: FeatureSplit(features=rows[split], labels=splits.labels[split]) for split in SPLITS}


def _columns(arrays: ArraySet) -> dict[str, Any]:
    """Names of the columns of a table that became features, and why others did not; empty for arrays."""
    parts = list(arrays.parts.values())
    if not any(part.columns for part in parts):
        return {}
    excluded = {name: reason for part in parts for name, reason in part.excluded.items()}
    return {"columns": list(_first(arrays).columns), "left_out": excluded}


def _first(arrays: ArraySet) -> ArrayPart:
    """Rows that the others are held against."""
    return arrays.parts.get("train") or next(iter(arrays.parts.values()))


def _width(arrays: ArraySet) -> int:
    first = _first(arrays)
    others = [part for part in arrays.parts.values() if part is not first]
    for other in others:
        if other.width != first.width:
            raise DataError(
                f"{other.where} has {other.width} features a row, {first.where} has {first.width}; all splits must "
                "come from the same network."
            )
        wrong = [pair for pair in zip(other.columns, first.columns, strict=False) if pair[0] != pair[1]]
        if wrong and len(first.columns) == first.width:
            raise DataError(
                f"{other.where} has the column {wrong[0][0]!r} where {first.where} has {wrong[0][1]!r}; write the "
                "columns of all splits in the same order."
            )
    return first.width


def _check_weight(arrays: ArraySet, width: int) -> None:
    """Refuse weights that do not take the features, before their rows count as classes."""
    if arrays.weight is None or (arrays.weight.ndim == 2 and arrays.weight.shape[1] == width):
        return
    turned = arrays.weight.ndim == 2 and len(arrays.weight) == width
    remedy = "these are transposed, so give weight.T" if turned else "give those of the layer on these features"
    raise DataError(
        f"The classifier has weights of shape {list(arrays.weight.shape)}, but there are {width} features, and weights "
        f"must be [classes, {width}]; {remedy}."
    )


def _classifier(arrays: ArraySet, width: int, classes: int) -> LinearClassifier | None:
    if arrays.weight is None:
        if arrays.bias is not None:
            raise DataError("The arrays hold a bias but no weight of a classifier; give both, or neither.")
        return None
    if arrays.label_names is None and any(part.labels.dtype.kind not in "iu" for part in arrays.parts.values()):
        raise DataError(
            "The arrays hold a classifier, and labels that are names, but not which class each row of the classifier "
            "is of; give label_names in the order of its rows, or leave the classifier out."
        )
    weight = np.ascontiguousarray(arrays.weight, np.float32)
    bias = np.zeros(len(weight), np.float32) if arrays.bias is None else np.asarray(arrays.bias, np.float32)
    if weight.shape != (classes, width):
        raise DataError(
            f"The classifier has weights of shape {list(weight.shape)}, but there are {classes} classes and {width} "
            f"features; they must be [{classes}, {width}]."
        )
    return LinearClassifier(weight=weight, bias=np.ascontiguousarray(bias))

"""Reading of a feature store.

::

    STORE/store.json                 schema, network, classes, crops, counts, digest, data and settings it was made from
    STORE/train/features.npy         float32 [N, d]; labels.npy int64 [N]; the same in validation/ and test/
    STORE/classifier.safetensors     weight [C, d] and bias [C], where the network has a linear last layer
    STORE/samples.safetensors        images uint8 [M, C, H, W], labels int64 [M] and features float32 [M, d] of the
                                     test split, where there are images

Shapes: N examples of a split, d features, C classes, M samples.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file

from mntrain.data.examples import IndexArray
from mntrain.data.split_record import SPLITS
from mntrain.errors import ConfigError, DataError
from mntrain.heads.classifier import LinearClassifier
from mntrain.networks.record import NetworkRecord
from mntrain.regular_files import read_text, regular

SCHEMA = 1
RECORD = "store.json"
CLASSIFIER = "classifier.safetensors"
SAMPLES = "samples.safetensors"


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureSplit:
    """Features of one split.

    Args:
        features: float32 [N, d], memory-mapped; written values stay in memory.
        labels: int64 [N].
    """

    features: NDArray[np.float32]
    labels: IndexArray

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureStore:
    """Features of a frozen network.

    Args:
        path: the folder.
        network: that the features come from.
        label_names: of the classes.
        train: to learn from; view v of image i is row v·(N / crops) + i.
        validation: to choose by.
        test: to report on.
        crops: views of each training image.
        classifier: the network's own last layer, None where there is none.
        sha256: digest of features and labels.
        data: what the features were made from, as plain values: ``config`` (fields of ``data``), ``split`` and
            ``summary``.
    """

    path: Path
    network: NetworkRecord
    label_names: tuple[str, ...]
    train: FeatureSplit
    validation: FeatureSplit
    test: FeatureSplit
    crops: int
    classifier: LinearClassifier | None
    sha256: str
    data: Mapping[str, Any]

    @property
    def features(self) -> int:
        """d."""
        return self.network.features

    @property
    def classes(self) -> int:
        """C."""
        return len(self.label_names)

    def part(self, name: str) -> FeatureSplit:
        """Return the split ``name``: train, validation or test."""
        return {"train": self.train, "validation": self.validation, "test": self.test}[name]

    @property
    def counts(self) -> IndexArray:
        """Training images of every class, int64 [C]; views of an image count once."""
        counts: IndexArray = np.bincount(self.train.labels, minlength=self.classes) // self.crops
        return counts


def open_store(path: str | Path) -> FeatureStore:
    """Open a finished feature store; features are mapped, not read.

    Raises:
        DataError: missing, unfinished, damaged, or of another version.
    """
    path = Path(path)
    file = path / RECORD
    try:
        values = json.loads(read_text(file))
    except FileNotFoundError as error:
        raise DataError(
            f"{path} is no feature store, or it is not finished: it has no {RECORD}. Write it with `mntrain features`, "
            "which goes on where it stopped."
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{file} cannot be read ({error}); write the store again with `mntrain features`.") from error
    if not isinstance(values, dict) or values.get("schema") != SCHEMA:
        raise DataError(f"{file} is not of schema {SCHEMA}; write the store again with `mntrain features`.")
    try:
        network = NetworkRecord.from_dict(values["network"])
        names = tuple(str(name) for name in values["label_names"])
        parts = {name: _open_split(path / name, network.features, len(names)) for name in SPLITS}
        store = FeatureStore(
            path=path,
            network=network,
            label_names=names,
            **parts,
            crops=int(values["crops"]),
            classifier=_open_classifier(path / CLASSIFIER),
            sha256=str(values["sha256"]),
            data=dict(values.get("data", {})),
        )
    except (KeyError, TypeError, ValueError, ConfigError) as error:
        raise DataError(f"{file} is damaged ({error}); write the store again with `mntrain features`.") from error
    if store.crops < 1 or len(store.train) % store.crops:
        raise DataError(f"{file} says {store.crops} views of each of {len(store.train)} rows; write the store again.")
    if store.classifier is not None and store.classifier.weight.shape != (store.classes, store.features):
        shape = list(store.classifier.weight.shape)
        raise DataError(
            f"{path / CLASSIFIER} has weights {shape}, but the store has {store.classes} classes and {store.features} "
            "features; the files are not of one store."
        )
    return store


def _open_split(folder: Path, features: int, classes: int) -> FeatureSplit:
    try:
        rows = np.load(regular(folder / "features.npy"), mmap_mode="c", allow_pickle=False)
        labels = np.load(regular(folder / "labels.npy"), allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(
            f"{folder} has no features and labels that can be read ({error}); write the store again."
        ) from error
    if rows.dtype != np.float32 or rows.ndim != 2 or rows.shape[1] != features:
        raise DataError(f"{folder} holds {rows.dtype} {list(rows.shape)}, expected float32 [rows, {features}].")
    if labels.dtype != np.int64 or labels.shape != rows.shape[:1] or not len(labels):
        raise DataError(f"{folder} holds {len(rows)} rows and labels {labels.dtype} {list(labels.shape)}; none fits.")
    if labels.min() < 0 or labels.max() >= classes:
        raise DataError(
            f"{folder} holds labels from {labels.min()} to {labels.max()}, but there are {classes} classes."
        )
    return FeatureSplit(features=rows, labels=labels)


def _open_classifier(file: Path) -> LinearClassifier | None:
    if not file.exists():
        return None
    try:
        arrays = load_file(str(regular(file)))
        return LinearClassifier(weight=arrays["weight"], bias=arrays["bias"])
    except (OSError, SafetensorError, KeyError) as error:
        raise DataError(f"{file} is damaged ({error}); write the store again.") from error

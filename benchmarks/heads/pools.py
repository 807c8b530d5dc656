"""Pools of features and labels, and splits of them that are written as feature stores.

Shapes: N examples, d features.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from mntrain.data.split_record import SPLITS
from mntrain.feature_store.store import RECORD, FeatureSplit, FeatureStore, open_store
from mntrain.feature_store.writing import StoreContent, write_store
from mntrain.networks.record import NetworkRecord


@dataclass(frozen=True, kw_only=True, eq=False)
class Pool:
    """Examples that splits are drawn from.

    Args:
        features: float32 [N, d].
        labels: int64 [N].
        names: of the classes.
    """

    features: NDArray[np.float32]
    labels: NDArray[np.int64]
    names: tuple[str, ...]

    def save(self, file: Path) -> None:
        """Write the pool as an npz file."""
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(file, features=self.features, labels=self.labels, names=np.array(self.names))

    @classmethod
    def load(cls, file: Path) -> Pool:
        """Read what :meth:`save` wrote."""
        with np.load(file, allow_pickle=False) as arrays:
            names = tuple(str(name) for name in arrays["names"])
            return cls(features=arrays["features"], labels=arrays["labels"], names=names)


@dataclass(frozen=True, kw_only=True)
class SplitSizes:
    """Numbers of examples of each split; the test split holds at most ``test``."""

    train: int = 1500
    validation: int = 500
    test: int = 2000


def draw_store(pool: Pool, sizes: SplitSizes, seed: int, path: Path) -> FeatureStore:
    """Draw the splits of ``seed``, every class in proportion, and write them as a store, unless it is there."""
    rest = np.arange(len(pool.labels))
    test = min(sizes.test, len(rest) - sizes.train - sizes.validation)
    drawn: list[Pool] = []
    for count in (test, sizes.validation, sizes.train):
        part = rest
        if count < len(rest):
            rest, part = train_test_split(rest, test_size=count, stratify=pool.labels[rest], random_state=seed)
        drawn.append(Pool(features=pool.features[part], labels=pool.labels[part], names=pool.names))
    return write_pools((drawn[2], drawn[1], drawn[0]), path)


def write_pools(pools: tuple[Pool, Pool, Pool], path: Path) -> FeatureStore:
    """Write training, validation and test examples as a store at ``path``, unless it is there."""
    if not (path / RECORD).exists():
        train = pools[0]
        write_store(
            path,
            StoreContent(
                network=NetworkRecord(
                    kind="arrays",
                    name=path.name,
                    sha256=hashlib.sha256(train.features.tobytes()).hexdigest(),
                    features=train.features.shape[1],
                    pixels=None,
                ),
                label_names=train.names,
                splits={
                    name: FeatureSplit(features=pool.features, labels=pool.labels)
                    for name, pool in zip(SPLITS, pools, strict=True)
                },
            ),
        )
    return open_store(path)

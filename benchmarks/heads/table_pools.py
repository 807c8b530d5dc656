"""Pools of rows with classes: measured columns as they are, without a network.

Shapes: N rows, d columns.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from heads.pools import Pool
from mntrain.data.config import DataConfig
from mntrain.data.loading import load_images


def table_pool(name: str, data: Path, limit: int) -> Pool:
    """Read one of the tables.

    Args:
        name: ``usps`` (256 grey values of handwritten digits), ``skillcraft`` (league of a player, column ``x1``; the
            two highest are one class, since the highest has 35 players), or ``wine`` (quality, column ``x10``: 5 and
            below, 6, 7 and above).
        data: folder of the sets.
        limit: largest number of rows.
    """
    pool = _usps(data / "usps") if name == "usps" else _levels(name, data / "uci" / f"{name}.parquet")
    order = np.random.default_rng(0).permutation(len(pool.labels))[:limit]
    return Pool(features=pool.features[order], labels=pool.labels[order], names=pool.names)


def _usps(folder: Path) -> Pool:
    loaded = load_images(DataConfig(source="datasets", path=str(folder), leaks="allow"))
    pixels = (loaded.train.images.reshape(len(loaded.train), -1) / 255).astype(np.float32)
    return Pool(features=pixels, labels=loaded.train.labels, names=loaded.label_names)


def _levels(name: str, file: Path) -> Pool:
    table = pq.read_table(file)
    target, merged, names = {
        "skillcraft": ("x1", (0, 1, 2, 3, 4, 5, 5), ("league 1", "2", "3", "4", "5", "6 and 7")),
        "wine": ("x10", (0, 0, 0, 1, 2, 2), ("5 and below", "6", "7 and above")),
    }[name]
    # A number of the row, and in skillcraft an identity of the player, tell nothing about the class.
    left_out = {target, "x0"} if name == "skillcraft" else {target}
    columns = [column for column in table.column_names if column not in left_out]
    features = np.stack([table.column(column).to_numpy() for column in columns], axis=1).astype(np.float32)
    _, levels = np.unique(table.column(target).to_numpy(), return_inverse=True)
    labels = np.asarray(merged, dtype=np.int64)[levels]
    return Pool(features=features, labels=labels, names=names)

"""Two concentric spirals in the plane: no straight line tells them apart (Meta-Neighborhoods, section 4.1)."""

from __future__ import annotations

import numpy as np

from mntrain.data.account import SourceAccount
from mntrain.data.config import DataConfig
from mntrain.data.tables import SourceTable, TableSet

_RADII = 0.2, 1.9  # of the first and the last point of each arm, so that noise stays within about ±2


def load(config: DataConfig) -> SourceTable:
    """Draw ``data.rows`` points on two arms of ``data.turns`` turns, half a turn apart, with noise of ``data.noise``.

    Points are spread evenly along the radius; the noise is normal in both coordinates, drawn from ``data.split_seed``.
    """
    random = np.random.default_rng(config.split_seed)
    labels = np.arange(config.rows, dtype=np.int64) % 2
    share = random.uniform(0, 1, config.rows)
    radius = _RADII[0] + share * (_RADII[1] - _RADII[0])
    angle = 2 * np.pi * config.turns * share + np.pi * labels
    points = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    points += random.normal(0, config.noise, points.shape)
    return SourceTable(
        splits={"all": TableSet(inputs=points.astype(np.float32), targets=labels)},
        feature_names=("x", "y"),
        target_names=("arm",),
        label_names=("first", "second"),
        account=SourceAccount(location="a formula: two spirals with noise"),
    )

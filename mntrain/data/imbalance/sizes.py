"""Sizes of the classes of a long-tailed training split.

Shapes: C classes, from the one that becomes the largest to the one that becomes the smallest.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mntrain.data.examples import IndexArray
from mntrain.data.imbalance.config import ImbalanceConfig
from mntrain.errors import ConfigError

_ROUNDING = 1e-9
"""What a size may lack to a whole number by rounding alone."""


def class_sizes(config: ImbalanceConfig, available: IndexArray, noun: str) -> IndexArray:
    """Compute the number of examples that each class keeps, int64 [C].

    Exponential sizes are n_1 ratio^(-i / (C - 1)) for i = 0 … C - 1, rounded down (Cui et al., 2019, "Class-Balanced
    Loss Based on Effective Number of Samples", section 5.1). Pareto sizes are the C quantiles i / C of a Pareto
    distribution, stretched so that its least and its greatest are the smallest and the largest class.
    A class that has fewer examples than that keeps what it has.

    Args:
        config: kind and limits.
        available: examples of each class, int64 [C], all at least 1.
        noun: word for an example, for messages.

    Raises:
        ConfigError: no class has as many examples as the largest is to have, or the smallest would get none.
    """
    most = int(available.max())
    largest = most if config.largest is None else config.largest
    if largest > most:
        raise ConfigError(
            f"data.imbalance.largest is {largest}, but no class has more than {most} training {noun}s after the other "
            f"splits are taken; use at most {most}, or set data.validation_from to test, which leaves the training "
            f"{noun}s whole."
        )
    smallest = float(config.smallest) if config.ratio is None and config.smallest else largest / (config.ratio or 1)
    if smallest > largest:
        raise ConfigError(
            f"data.imbalance.smallest is {config.smallest}, but the largest class has {largest} training {noun}s; use "
            f"at most {largest}."
        )
    if smallest < 1 - _ROUNDING:
        raise ConfigError(
            f"data.imbalance.ratio is {config.ratio:g}, but the largest class has {largest} training {noun}s, so the "
            f"smallest would get none; use a ratio of at most {largest}."
        )
    decay = _exponential if config.kind == "exponential" else _pareto
    wanted = np.floor(decay(len(available), float(largest), smallest, config.power) + _ROUNDING)
    return np.minimum(wanted.astype(np.int64), available)


def _exponential(classes: int, largest: float, smallest: float, power: float) -> NDArray[np.float64]:
    """Geometric sequence from ``largest`` down to ``smallest``, float64 [C]."""
    return np.geomspace(largest, smallest, classes)


def _pareto(classes: int, largest: float, smallest: float, power: float) -> NDArray[np.float64]:
    """Stretched quantiles of a Pareto distribution, float64 [C], descending."""
    left = 1 - np.arange(classes, dtype=np.float64)[::-1] / classes
    quantiles = left ** (-1 / power) - 1
    highest = quantiles[0] if classes > 1 else 1.0
    sizes: NDArray[np.float64] = smallest + (largest - smallest) * quantiles / highest
    return sizes

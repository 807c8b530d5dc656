"""Made-up features of which one property at a time is known.

Shapes: N examples, d features, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heads.pools import Pool


@dataclass(frozen=True, kw_only=True)
class Properties:
    """Properties of made-up features.

    Args:
        modes: Gaussian clouds of each class, of deviation 1 around centers that lie in random directions.
        examples: training examples of a class, in the mean.
        dimension: d.
        distance: of every center from the origin.
        noise: share of the labels that are drawn anew.
        imbalance: training examples of the first class over those of the last; geometric in between.
        classes: C.
    """

    modes: int = 4
    examples: int = 200
    dimension: int = 16
    distance: float = 4.0
    noise: float = 0.0
    imbalance: float = 1.0
    classes: int = 5


def made_up(properties: Properties, seed: int, counts: tuple[int, int, int]) -> tuple[Pool, Pool, Pool]:
    """Draw training, validation and test examples of ``counts``; only the training examples are imbalanced."""
    random = np.random.default_rng(seed)
    shape = (properties.classes, properties.modes, properties.dimension)
    centers = random.normal(size=shape)
    centers *= properties.distance / np.linalg.norm(centers, axis=-1, keepdims=True)
    steps = np.arange(properties.classes) / max(1, properties.classes - 1)
    shares = properties.imbalance**-steps
    even = np.full(properties.classes, 1 / properties.classes)

    def draw(count: int, shares: NDArray[np.float64]) -> Pool:
        whole = np.maximum(2, np.round(count * shares / shares.sum())).astype(np.int64)
        labels = np.repeat(np.arange(properties.classes), whole)
        modes = random.integers(0, properties.modes, len(labels))
        features = centers[labels, modes] + random.normal(size=(len(labels), properties.dimension))
        redrawn = random.random(len(labels)) < properties.noise
        labels = np.where(redrawn, random.integers(0, properties.classes, len(labels)), labels)
        names = tuple(f"class {number}" for number in range(properties.classes))
        return Pool(features=features.astype(np.float32), labels=labels.astype(np.int64), names=names)

    train, validation, test = counts
    return draw(train, shares), draw(validation, even), draw(test, even)

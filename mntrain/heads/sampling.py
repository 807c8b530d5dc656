"""Draws of training examples: each alike, each class alike, or in between.

Shapes: N examples, C classes.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from mntrain.data.examples import IndexArray

Sampling = Literal["instance", "class-balanced", "square-root"]
SAMPLINGS: tuple[Sampling, ...] = ("instance", "class-balanced", "square-root")
_POWERS: dict[Sampling, float] = {"class-balanced": 0.0, "square-root": 0.5}


def draw_examples(kind: Sampling, labels: IndexArray, count: int, generator: np.random.Generator) -> IndexArray:
    """Draw positions of examples (Kang et al. 2020, "Decoupling Representation and Classifier", section 3.2).

    A class is drawn with a probability proportional to n_c^q, then one of its n_c examples; q is 0 for class-balanced
    and 1/2 for square-root. For q = 1, instance, every example is drawn once before one is drawn again.

    Args:
        kind: of the draw.
        labels: class of each example, int64 [N].
        count: number of positions.
        generator: of the draw.

    Returns:
        int64 [count].
    """
    if kind == "instance":
        rounds = -(-count // len(labels))
        return np.concatenate([generator.permutation(len(labels)) for _ in range(rounds)])[:count].astype(np.int64)
    by_class = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels)
    shares = np.where(sizes > 0, sizes.astype(np.float64) ** _POWERS[kind], 0.0)
    classes = generator.choice(len(sizes), size=count, p=shares / shares.sum())
    within = (generator.random(count) * sizes[classes]).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    drawn: IndexArray = by_class[starts[classes] + within]
    return drawn

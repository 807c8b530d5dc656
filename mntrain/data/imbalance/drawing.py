"""Draw a long-tailed training split.

Shapes: N examples of the pool that is split, M training examples, C classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mntrain.data.examples import IndexArray
from mntrain.data.imbalance.config import ImbalanceConfig
from mntrain.data.imbalance.sizes import class_sizes
from mntrain.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class ImbalanceRecord:
    """Long tail of a training split.

    Args:
        config: that it was drawn by.
        counts: name of each class → training examples, from the one that was to be the largest to the smallest.
    """

    config: ImbalanceConfig
    counts: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {**self.config.to_dict(), "counts": dict(self.counts)}

    def sentence(self) -> str:
        """Put the long tail into words."""
        counts = list(self.counts.values())
        power = f" of power {self.config.power:g}" if self.config.kind == "pareto" else ""
        order = "the order of labels" if self.config.order == "label" else "shuffled order"
        return f"train is long-tailed: {self.config.kind}{power}, from {max(counts):,} to {min(counts):,}, in {order}"


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelledPool:
    """Examples that a training split is drawn from.

    Args:
        targets: int64 labels [N]; values cannot become long-tailed.
        label_names: of the classes; None where the targets are values.
        noun: word for an example, for messages.
    """

    targets: NDArray[Any]
    label_names: tuple[str, ...] | None
    noun: str


def draw_imbalance(
    pool: LabelledPool, train: IndexArray, config: ImbalanceConfig, random: np.random.RandomState
) -> tuple[IndexArray, ImbalanceRecord]:
    """Draw the training examples that stay.

    Examples of a class are put into a random order whatever it keeps. So with one seed the examples that a steeper
    tail keeps are among those that a flatter one keeps.

    Args:
        pool: that the positions belong to.
        train: positions of the training examples, int64 [M].
        config: an active one.
        random: draws the order of classes, where it is shuffled, then the examples of each class in turn.

    Returns:
        The positions that stay, ascending, and the record of the long tail.

    Raises:
        ConfigError: the targets are values, or the sizes do not fit
            (:func:`~mntrain.data.imbalance.sizes.class_sizes`).
    """
    if pool.label_names is None:
        raise ConfigError(
            f"data.imbalance.kind is {config.kind!r}, but the targets are values, which have no classes; leave it out, "
            "or set data.target to class."
        )
    labels = pool.targets[train]
    classes, available = np.unique(labels, return_counts=True)
    order = random.permutation(len(classes)) if config.order == "shuffled" else np.arange(len(classes))
    classes, sizes = classes[order], class_sizes(config, available[order].astype(np.int64), pool.noun)
    kept = [random.permutation(train[labels == label])[:size] for label, size in zip(classes, sizes, strict=True)]
    counts = {pool.label_names[label]: int(size) for label, size in zip(classes, sizes, strict=True)}
    return np.sort(np.concatenate(kept)).astype(np.int64), ImbalanceRecord(config=config, counts=counts)

"""Order of the examples of an epoch: which ones it takes, and when.

Shapes: N examples, C classes that have any.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from mntrain.data.examples import IndexArray

Sampling = Literal["instance", "class_balanced", "square_root"]
SAMPLINGS: tuple[Sampling, ...] = ("instance", "class_balanced", "square_root")
_POWERS = {"class_balanced": 0.0, "square_root": 0.5}
"""Power q of a class's share n_c^q / Σ n^q."""


def epoch_order(labels: IndexArray, sampling: Sampling, *, seed: int, epoch: int) -> IndexArray:
    """Draw the positions that an epoch takes, in their order, int64 [N].

    ``instance`` takes every example once. Otherwise class c has the share n_c^q / Σ n^q of the epoch, with q = 0 for
    ``class_balanced`` and 1/2 for ``square_root`` (Kang et al., 2020, "Decoupling Representation and Classifier",
    section 3). A class gets its share rounded up or down, so that an epoch has N examples and the mean over epochs
    is the share. It takes each of its examples equally often, but for one.

    Args:
        labels: of the examples, int64 [N]; ``instance`` looks at their number alone.
        sampling: rule.
        seed, epoch: decide the order; alike in every process.
    """
    generator = np.random.default_rng((seed, epoch))
    if sampling == "instance":
        return generator.permutation(len(labels)).astype(np.int64, copy=False)
    classes, counts = np.unique(labels, return_counts=True)
    shares = counts ** _POWERS[sampling]
    sizes = _whole_sizes(len(labels) * shares / shares.sum(), generator)
    drawn = [
        _cycled(np.flatnonzero(labels == label), size, generator) for label, size in zip(classes, sizes, strict=True)
    ]
    return generator.permutation(np.concatenate(drawn)).astype(np.int64, copy=False)


def _whole_sizes(shares: np.ndarray[tuple[int], np.dtype[np.float64]], generator: np.random.Generator) -> IndexArray:
    """Round shares [C] with a whole sum up or down, each up with the probability of its fraction; int64 [C]."""
    # One draw for all classes, at even distances along their sum in random order: systematic sampling.
    order = generator.permutation(len(shares))
    ends = np.cumsum(shares[order])
    ends[-1] = np.round(ends[-1])
    below = np.floor(ends - generator.random() + 1).astype(np.int64)
    below[-1] = int(ends[-1])
    sizes = np.empty(len(shares), dtype=np.int64)
    sizes[order] = np.diff(below, prepend=0)
    return sizes


def _cycled(positions: IndexArray, size: int, generator: np.random.Generator) -> IndexArray:
    """Draw ``size`` of ``positions``, all of them before any comes again."""
    whole, rest = divmod(size, len(positions))
    return np.concatenate([np.tile(positions, whole), generator.permutation(positions)[:rest]])

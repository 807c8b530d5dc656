"""Inputs of the modules: classifiers of a class and its neighbors, reduced to principal components.

Shapes: d features, C classes, p reduced width, F few classes, K neighbors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mntrain.data.examples import IndexArray
from mntrain.errors import ConfigError

_USUAL = 500


def reduce_classifiers(weight: NDArray[Any], width: int | None) -> NDArray[np.float64]:
    """Reduce the classifiers of all classes to their principal components (section 4.1).

    Args:
        weight: classifiers of all classes, [C, d].
        width: p; 0 returns them whole, None takes 500 or the rank, if that is less.

    Returns:
        float64 [C, p]; Euclidean distances within the p components are kept.

    Raises:
        ConfigError: more components than the centered classifiers have rank, or all of them are equal.
    """
    whole = weight.astype(np.float64)
    if width == 0:
        return whole
    left, scale, _ = np.linalg.svd(whole - whole.mean(axis=0), full_matrices=False)
    # Rounding of float32 weights is no component.
    rank = int((scale > scale[0] * max(weight.shape) * np.finfo(np.float32).eps).sum()) if scale[0] > 0 else 0
    if rank == 0:
        raise ConfigError(
            f"All {len(weight)} classifiers are equal, so there is nothing to compose; start from a method that has "
            "learned, as in alpha-crt."
        )
    chosen = reduced_width(width, rank, len(weight))
    components: NDArray[np.float64] = left[:, :chosen] * scale[:chosen]
    # A sign for each component that does not depend on the library: its largest entry is positive.
    largest = np.abs(components).argmax(axis=0)
    signs: NDArray[np.float64] = np.sign(components[largest, np.arange(chosen)])
    return components * signs


def reduced_width(width: int | None, rank: int, classes: int) -> int:
    """Return the number of principal components of ``classes`` classifiers that have ``rank`` of them.

    Args:
        width: that is asked for; None takes 500 or the rank.
        rank: at most classes less 1, and at most the features.
        classes: C.

    Raises:
        ConfigError: more components than there are.
    """
    if width is None:
        return min(_USUAL, rank)
    if width > rank:
        raise ConfigError(
            f"alpha.reduced is {width}, but the {classes} classifiers have {rank} principal components (classes "
            "less 1, or features); lower it, or set it to 0 to read classifiers whole."
        )
    return width


def module_inputs(reduced: NDArray[np.float64], members: IndexArray) -> NDArray[np.float64]:
    """Concatenate the classifiers of each composition, its own first.

    Args:
        reduced: float64 [C, p].
        members: int64 [F, K + 1].

    Returns:
        float64 [F, (K + 1)·p].
    """
    return reduced[members].reshape(len(members), -1)

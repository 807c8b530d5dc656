"""Composition of classifiers by coefficients.

Shapes: d features, C classes, F few classes, K neighbors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mntrain.data.examples import IndexArray
from mntrain.heads.classifier import LinearClassifier


def compose(
    base: LinearClassifier, members: IndexArray, coefficients: NDArray[Any], *, compose_bias: bool = True
) -> LinearClassifier:
    """Compose the classifiers of few classes, U = Σₖ αₖVₖ and t = Σₖ αₖpₖ (equations 1 and 2).

    Sums are of float64. A member with coefficient 0 is left out, so coefficients (1, 0, …) keep a classifier bit for
    bit.

    Args:
        base: classifier of all classes.
        members: classes of each composition, its own first, int64 [F, K + 1].
        coefficients: [F, K + 1].
        compose_bias: compose biases too; else each few class keeps its own.
    """
    weight, bias = base.weight.copy(), base.bias.copy()
    for own, parts, shares in zip(members[:, 0], members, coefficients.astype(np.float64), strict=True):
        used = np.flatnonzero(shares)
        weight[own] = _combined(base.weight[parts[used]], shares[used])
        if compose_bias:
            bias[own] = _combined(base.bias[parts[used]], shares[used])
    return LinearClassifier(weight=weight, bias=bias)


def _combined(values: NDArray[np.float32], shares: NDArray[np.float64]) -> Any:
    parts = shares.reshape(-1, *[1] * (values.ndim - 1)) * values
    # A sum over one part must not turn its -0 into 0.
    return (parts[0] if len(parts) == 1 else parts.sum(axis=0)).astype(np.float32)

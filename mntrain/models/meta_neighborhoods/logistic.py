"""Start of a dot head: converged logistic regression on features, with a penalty chosen on examples held out.

Shapes: N examples, C classes, d features. queries z [N, d], weights φ = [w, b] [C, d+1].
"""

import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_PENALTIES = tuple(10.0**power for power in range(-4, 3))
"""Inverse strengths C of the L2 penalty that are tried."""
_HELD_OUT = 5  # one of so many examples of each class chooses the penalty
_ITERATIONS = 1000
_ABSENT = 10.0  # how far below all others the bias of a class without examples lies


def logistic_weights(queries: Tensor, targets: Tensor, classes: int, seed: int) -> Tensor:
    """Fit multinomial logistic regression with an L2 penalty; the same seed gives the same weights.

    Every fifth example of a class, drawn at random, is held out to choose the penalty by its cross-entropy; the
    weights are then fitted to all examples.

    Args:
        queries: z [N, d].
        targets: int64 [N].
        classes: C.
        seed: of the draw.

    Returns:
        φ [C, d+1]; a class without examples has weights 0 and the lowest bias.
    """
    rows, labels = queries.double().numpy(), targets.numpy()
    held_out = _held_out(labels, seed)
    chosen = _PENALTIES[len(_PENALTIES) // 2]
    if held_out.any():
        costs = []
        for penalty in _PENALTIES:
            weights = _fit(rows[~held_out], labels[~held_out], classes, penalty)
            logits = torch.from_numpy(rows[held_out] @ weights[:, :-1].T + weights[:, -1])
            costs.append(float(torch.nn.functional.cross_entropy(logits, targets[torch.from_numpy(held_out)])))
        chosen = _PENALTIES[int(np.argmin(costs))]
    return torch.from_numpy(_fit(rows, labels, classes, chosen)).to(queries.dtype)


def _held_out(labels: NDArray[np.int64], seed: int) -> NDArray[np.bool_]:
    """Draw a fifth of the examples of each class, boolean [N]; of fewer than five none."""
    generator = np.random.default_rng(seed)
    chosen = np.zeros(len(labels), dtype=np.bool_)
    for label in np.unique(labels):
        members = generator.permutation(np.flatnonzero(labels == label))
        chosen[members[: len(members) // _HELD_OUT]] = True
    return chosen


def _fit(rows: NDArray[Any], labels: NDArray[np.int64], classes: int, penalty: float) -> NDArray[np.float64]:
    """Fit weights and biases float64 [C, d+1]."""
    # A start alone needs scikit-learn: trained models load on machines without it.
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    weights = np.zeros((classes, rows.shape[1] + 1))
    present = np.unique(labels)
    if len(present) > 1:
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = LogisticRegression(C=penalty, max_iter=_ITERATIONS).fit(rows, labels)
        found = np.concatenate([model.coef_, model.intercept_[:, None]], axis=1)
        weights[present] = np.concatenate([-found, found]) / 2 if len(present) == 2 else found
    absent = np.setdiff1d(np.arange(classes), present)
    weights[absent, -1] = weights[present, -1].min() - _ABSENT
    return weights

"""Logistic regression of scikit-learn, the reference beside every head.

Shapes: N rows, d features, C classes.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from mntrain.heads.classifier import LinearClassifier
from mntrain.heads.problem import HeadProblem, HeadResult, HeadSweep

_GRID = (-2, -1, 0)
_LIMIT = 6
"""Powers of ten: C is chosen from these, and the grid is widened to ±6 while the best lies at its end."""
_STEPS = 10_000


def logistic(problem: HeadProblem) -> HeadResult:
    """Fit logistic regressions until they converge, on standardised features; validation rows choose C.

    The standardised training rows are held in memory.
    """
    fits = _Fits(problem=problem, inputs=problem.scale.rows(problem.store.train.features))
    for power in _GRID:
        fits.rank(power)
    while True:
        best = max(fits.ranks, key=fits.ranks.__getitem__)
        beyond = {min(fits.ranks): best - 1, max(fits.ranks): best + 1}.get(best)
        if beyond is None or abs(beyond) > _LIMIT:
            break
        fits.rank(beyond)
    powers = tuple(sorted(fits.ranks))
    heads = {10.0**power: fits.heads[power] for power in powers}
    sweep = HeadSweep(name="C", values=tuple(heads), predictor=heads.__getitem__, chosen=10.0**best)
    chosen = {"C": 10.0**best, "converged": best not in fits.unfinished}
    return HeadResult(predictor=fits.heads[best], scale=problem.scale, chosen=chosen, sweeps=(sweep,))


@dataclass(kw_only=True, eq=False)
class _Fits:
    """Fits by the power of ten that C is.

    Args:
        problem: features and labels.
        inputs: standardised training rows float32 [N, d].
        heads: classifiers.
        ranks: on the validation rows.
        unfinished: powers whose fit ended before it converged.
    """

    problem: HeadProblem
    inputs: NDArray[np.float32]
    heads: dict[int, LinearClassifier] = field(default_factory=dict)
    ranks: dict[int, tuple[float, float]] = field(default_factory=dict)
    unfinished: set[int] = field(default_factory=set)

    def rank(self, power: int) -> None:
        """Fit with C = 10^power."""
        model = LogisticRegression(C=10.0**power, max_iter=_STEPS, random_state=self.problem.seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ConvergenceWarning)
            model.fit(self.inputs, self.problem.store.train.labels)
        if any(issubclass(warning.category, ConvergenceWarning) for warning in caught):
            self.unfinished.add(power)
        weight, bias = model.coef_, model.intercept_
        if len(weight) == 1:  # of two classes scikit-learn keeps the difference
            weight, bias = np.concatenate([-weight / 2, weight / 2]), np.concatenate([-bias / 2, bias / 2])
        self.heads[power] = self.problem.scale.folded(weight, bias)
        self.ranks[power] = self.problem.rank(self.heads[power])

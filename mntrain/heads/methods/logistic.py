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
from mntrain.heads.grid import Grid, Rank
from mntrain.heads.problem import HeadProblem, HeadResult, HeadSweep

_COSTS = Grid(name="C", values=(0.01, 0.1, 1.0), least=1e-6, most=1e6, factor=10.0)
_STEPS = 10_000


def logistic(problem: HeadProblem) -> HeadResult:
    """Fit logistic regressions until they converge, on standardised features; validation rows choose C.

    The standardised training rows are held in memory.
    """
    fits = _Fits(problem=problem, inputs=problem.scale.rows(problem.store.train.features))
    choice = _COSTS.choose(fits.rank)
    sweep = HeadSweep(name="C", values=choice.values, predictor=fits.heads.__getitem__, chosen=choice.value)
    return HeadResult(
        predictor=fits.heads[choice.value],
        scale=problem.scale,
        chosen={"C": choice.value, "converged": choice.value not in fits.unfinished},
        sweeps=(sweep,),
        notes=choice.notes,
    )


@dataclass(kw_only=True, eq=False)
class _Fits:
    """Fits by their C.

    Args:
        problem: features and labels.
        inputs: standardised training rows float32 [N, d].
        heads: classifiers.
        unfinished: values of C whose fit ended before it converged.
    """

    problem: HeadProblem
    inputs: NDArray[np.float32]
    heads: dict[float, LinearClassifier] = field(default_factory=dict)
    unfinished: set[float] = field(default_factory=set)

    def rank(self, cost: float) -> Rank:
        """Fit with a value of C, and rank the head."""
        model = LogisticRegression(C=cost, max_iter=_STEPS, random_state=self.problem.seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ConvergenceWarning)
            model.fit(self.inputs, self.problem.store.train.labels)
        if any(issubclass(warning.category, ConvergenceWarning) for warning in caught):
            self.unfinished.add(cost)
        weight, bias = model.coef_, model.intercept_
        if len(weight) == 1:  # of two classes scikit-learn keeps the difference
            weight, bias = np.concatenate([-weight / 2, weight / 2]), np.concatenate([-bias / 2, bias / 2])
        self.heads[cost] = self.problem.scale.folded(weight, bias)
        return self.problem.rank(self.heads[cost])

"""References that are not linear: a support vector machine and a perceptron. Neither becomes an artifact.

Shapes: N rows, B rows to answer, d features, h hidden units, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.svm import SVC
from torch import nn

from mntrain.errors import TrainingError
from mntrain.heads.feature_scale import FeatureScale
from mntrain.heads.problem import HeadProblem, HeadResult
from mntrain.heads.sgd import SgdPlan, step_count, train_by_sgd

_COSTS = (0.1, 1.0, 10.0, 100.0)
_RATES = (0.002, 0.02, 0.2)


@dataclass(frozen=True, kw_only=True, eq=False)
class SupportVectors:
    """Support vector machine with an RBF kernel, on standardised features.

    Args:
        model: fitted, one class against each other.
        scale: standardisation.
    """

    model: SVC
    scale: FeatureScale

    def logits(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Features [B, d] → scores [B, C], whose largest is that of the answer; they are no log-probabilities."""
        scores = self.model.decision_function(self.scale.rows(features))
        if scores.ndim == 1:  # of two classes scikit-learn scores the second
            scores = np.stack([-scores, scores], axis=1) / 2
        return np.asarray(scores, np.float32)


@dataclass(frozen=True, kw_only=True, eq=False)
class PerceptronScores:
    """Trained perceptron on standardised features.

    Args:
        network: inputs [B, d] → logits [B, C].
        scale: standardisation.
    """

    network: nn.Module
    scale: FeatureScale

    def logits(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Features [B, d] → logits [B, C]."""
        with torch.inference_mode():
            logits: NDArray[np.float32] = self.network(torch.from_numpy(self.scale.rows(features))).numpy()
        return logits


def svm(problem: HeadProblem) -> HeadResult:
    """Fit support vector machines with an RBF kernel of scikit-learn's width; validation rows choose the cost C.

    All training rows are held in memory, and the time grows with the square of their number.
    """
    inputs, labels = problem.scale.rows(problem.store.train.features), problem.store.train.labels
    heads = {
        cost: SupportVectors(model=SVC(C=cost, break_ties=True).fit(inputs, labels), scale=problem.scale)
        for cost in _COSTS
    }
    best = max(_COSTS, key=lambda cost: problem.rank(heads[cost]))
    return HeadResult(predictor=heads[best], scale=problem.scale, chosen={"C": best})


def mlp(problem: HeadProblem) -> HeadResult:
    """Train a perceptron with one hidden layer and ReLU, as joint trains its layer; validation rows choose the rate.

    Raises:
        TrainingError: no rate gives finite weights.
    """
    settings, store = problem.settings.head, problem.store
    rates = (settings.learning_rate,) if settings.learning_rate else _RATES
    steps = step_count(settings, len(store.train), 90)
    heads = {}
    for rate in rates:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(problem.seed)
            network = nn.Sequential(
                nn.Linear(store.features, settings.hidden), nn.ReLU(), nn.Linear(settings.hidden, store.classes)
            )
        plan = SgdPlan(settings=settings, sampling="instance", steps=steps, rate=rate, seed=problem.seed)
        if train_by_sgd(network, store.train, problem.scale, plan):
            heads[rate] = PerceptronScores(network=network, scale=problem.scale)
    if not heads:
        raise TrainingError(
            f"Method {problem.method!r} ends in weights that are not finite with learning rate(s) "
            f"{', '.join(f'{rate:g}' for rate in rates)}; lower --head.learning_rate."
        )
    best = max(heads, key=lambda rate: problem.rank(heads[rate]))
    chosen = {"learning_rate": best, "steps": steps, "hidden": settings.hidden}
    return HeadResult(predictor=heads[best], scale=problem.scale, chosen=chosen)

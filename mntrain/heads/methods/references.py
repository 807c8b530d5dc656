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

from mntrain.heads.feature_scale import FeatureScale
from mntrain.heads.grid import WORST, Grid, Rank
from mntrain.heads.problem import HeadProblem, HeadResult
from mntrain.heads.sgd import SgdPlan, rates_of, step_count, train_by_sgd, unlearned

_COSTS = Grid(name="C", values=(0.1, 1.0, 10.0, 100.0), least=1e-3, most=1e5, factor=10.0)


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
    heads: dict[float, SupportVectors] = {}

    def rank(cost: float) -> Rank:
        heads[cost] = SupportVectors(model=SVC(C=cost, break_ties=True).fit(inputs, labels), scale=problem.scale)
        return problem.rank(heads[cost])

    choice = _COSTS.choose(rank)
    return HeadResult(
        predictor=heads[choice.value], scale=problem.scale, chosen={"C": choice.value}, notes=choice.notes
    )


def mlp(problem: HeadProblem) -> HeadResult:
    """Train a perceptron with one hidden layer and ReLU, as joint trains its layer; validation rows choose the rate.

    Raises:
        TrainingError: no rate gives finite weights.
    """
    settings, store = problem.settings.head, problem.store
    steps = step_count(settings, len(store.train), 90)
    heads: dict[float, PerceptronScores] = {}

    def rank(rate: float) -> Rank:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(problem.seed)
            network = nn.Sequential(
                nn.Linear(store.features, settings.hidden), nn.ReLU(), nn.Linear(settings.hidden, store.classes)
            )
        plan = SgdPlan(settings=settings, sampling="instance", steps=steps, rate=rate, seed=problem.seed)
        if not train_by_sgd(network, store.train, problem.scale, plan):
            return WORST
        heads[rate] = PerceptronScores(network=network, scale=problem.scale)
        return problem.rank(heads[rate])

    choice = rates_of(settings).choose(rank)
    if choice.value not in heads:
        raise unlearned(problem.method, choice)
    chosen = {"learning_rate": choice.value, "steps": steps, "hidden": settings.hidden}
    return HeadResult(predictor=heads[choice.value], scale=problem.scale, chosen=chosen, notes=choice.notes)

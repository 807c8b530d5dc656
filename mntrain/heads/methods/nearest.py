"""Nearest training rows, and nearest class means.

Shapes: N training rows, B rows to answer, d features, C classes, K neighbors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from sklearn.neighbors import NearestNeighbors

from mntrain.baselines.nearest import CANDIDATES
from mntrain.data.examples import IndexArray
from mntrain.feature_store.store import FeatureSplit
from mntrain.heads.classifier import LinearClassifier
from mntrain.heads.feature_scale import FeatureScale
from mntrain.heads.problem import HeadProblem, HeadResult

_ROWS = 4096
_LEAST_LENGTH = 1e-12


@dataclass(frozen=True, kw_only=True, eq=False)
class NeighborVotes:
    """Share of each class among the k nearest training rows, by Euclidean distance of standardised features.

    Args:
        search: over the training rows.
        labels: of these, int64 [N].
        scale: standardisation.
        classes: C.
        neighbors: k.
    """

    search: NearestNeighbors
    labels: IndexArray
    scale: FeatureScale
    classes: int
    neighbors: int

    def logits(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Features [B, d] → log of the shares [B, C], every class having one vote more, split over all classes."""
        rows = self.scale.rows(features)
        return vote_logits(self.labels[self.search.kneighbors(rows, self.neighbors, False)], self.classes)


def vote_logits(near: IndexArray, classes: int) -> NDArray[np.float32]:
    """Classes of the nearest rows, int64 [B, K] → log of the share of each of C ``classes`` [B, C].

    One vote more is split over all classes, so that none has the probability 0.
    """
    votes = np.full((len(near), classes), 1.0 / classes)
    np.add.at(votes, (np.arange(len(near))[:, None], near), 1.0)
    logits: NDArray[np.float32] = np.log(votes / (near.shape[1] + 1)).astype(np.float32)
    return logits


def knn(problem: HeadProblem) -> HeadResult:
    """Vote among the k nearest training rows; validation rows choose k. All training rows are held in memory."""
    store, scale = problem.store, problem.scale
    candidates = [count for count in CANDIDATES if count <= len(store.train)]
    search = NearestNeighbors().fit(scale.rows(store.train.features))
    # Neighbors come sorted by distance, so one search serves every k.
    found = search.kneighbors(scale.rows(store.validation.features), candidates[-1], False)
    near = store.train.labels[found]
    ranks = {count: problem.rank_logits(vote_logits(near[:, :count], store.classes)) for count in candidates}
    best = max(candidates, key=ranks.__getitem__)
    votes = NeighborVotes(search=search, labels=store.train.labels, scale=scale, classes=store.classes, neighbors=best)
    return HeadResult(predictor=votes, scale=scale, chosen={"neighbors": best})


def ncm(problem: HeadProblem) -> HeadResult:
    """Choose the nearest class mean by the cosine (Kang et al. 2020, section 4.1), as a linear layer.

    Rows are centred by the training mean and brought to length 1; the class mean of these, at length 1 again, is a row
    of weights. The length of a row to answer is one factor on all its scores, so it is left out. A temperature fitted
    on the validation rows makes probabilities of the scores.
    """
    mean, store = problem.scale.mean, problem.store
    means = _directions(store.train, mean, store.classes)
    bias = -means @ mean
    logits = (
        LinearClassifier(weight=means.astype(np.float32), bias=bias.astype(np.float32))
        .logits(store.validation.features)
        .astype(np.float64)
    )
    factor = _temperature(logits, store.validation.labels)
    scaled = LinearClassifier(weight=(factor * means).astype(np.float32), bias=(factor * bias).astype(np.float32))
    return HeadResult(
        predictor=scaled, scale=FeatureScale.identity(store.features), chosen={"inverse_temperature": factor}
    )


def _directions(train: FeatureSplit, mean: NDArray[np.float64], classes: int) -> NDArray[np.float64]:
    """Compute the mean of the centred rows of length 1 of each class, at length 1, float64 [C, d]."""
    sums = np.zeros((classes, len(mean)))
    for start in range(0, len(train), _ROWS):
        rows = _unit(train.features[start : start + _ROWS] - mean)
        np.add.at(sums, train.labels[start : start + _ROWS], rows)
    return _unit(sums)


def _unit(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: NDArray[np.float64] = rows / np.maximum(lengths, _LEAST_LENGTH)
    return unit


def _temperature(logits: NDArray[np.float64], labels: IndexArray) -> float:
    """Find the factor on logits [B, C] with the lowest cross-entropy, between e^-12 and e^12 over their deviation."""
    unit = 1.0 / max(float(logits.std()), _LEAST_LENGTH)

    def loss(exponent: float) -> float:
        scaled = logits * (unit * np.exp(exponent))
        of_label = np.take_along_axis(scaled, labels[:, None], axis=1)[:, 0]
        return float((logsumexp(scaled, axis=1) - of_label).mean())

    return float(unit * np.exp(minimize_scalar(loss, bounds=(-12.0, 12.0), method="bounded").x))

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
from mntrain.heads.feature_scale import FeatureScale
from mntrain.heads.grid import Grid, Rank
from mntrain.heads.groups import sum_by_class
from mntrain.heads.problem import HeadProblem, HeadResult

_ROWS = 4096
_MOST_VOTES = 800
_LEAST_LENGTH = 1e-12
"""Of a row, as a share of the usual one."""


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
    search = NearestNeighbors().fit(scale.rows(store.train.features))
    queries, most = scale.rows(store.validation.features), len(store.train)
    # Neighbors come sorted by distance, so one search serves every k up to its own.
    near = [search.kneighbors(queries, min(CANDIDATES[-1], most), False)]

    def rank(count: float) -> Rank:
        if count > near[0].shape[1]:
            near[0] = search.kneighbors(queries, int(count), False)
        return problem.rank_logits(vote_logits(store.train.labels[near[0][:, : int(count)]], store.classes))

    values = tuple(count for count in CANDIDATES if count <= most)
    grid = Grid(name="neighbors", values=values, least=1, most=min(most, _MOST_VOTES), factor=2)
    choice = grid.choose(rank)
    votes = NeighborVotes(
        search=search, labels=store.train.labels, scale=scale, classes=store.classes, neighbors=int(choice.value)
    )
    return HeadResult(predictor=votes, scale=scale, chosen={"neighbors": votes.neighbors}, notes=choice.notes)


def ncm(problem: HeadProblem) -> HeadResult:
    """Choose the nearest class mean by the cosine (Kang et al. 2020, section 4.1), as a linear layer.

    Rows are centred by the training mean and brought to length 1; the class mean of these, at length 1 again, is a row
    of weights. The length of a row to answer is one factor on all its scores, so it is left out. A temperature fitted
    on the validation rows makes probabilities of the scores.
    """
    scale, store = problem.scale, problem.store
    means = _directions(store.train, scale, store.classes)
    bias = -means @ scale.mean
    # In float64: the unit of features is that of these scores, and may be near the least number of float32.
    logits = store.validation.features.astype(np.float64) @ means.T + bias
    factor = _temperature(logits, store.validation.labels)
    return HeadResult(
        predictor=scale.in_float32(factor * means, factor * bias),
        scale=FeatureScale.identity(store.features),
        chosen={"inverse_temperature": factor},
    )


def _directions(train: FeatureSplit, scale: FeatureScale, classes: int) -> NDArray[np.float64]:
    """Compute the mean of the centred rows of length 1 of each class, at length 1, float64 [C, d].

    Features that the scale leaves out are 0. Rows that are as near to the mean as its rounding have no direction.
    """
    kept = np.isfinite(scale.std)
    least = _LEAST_LENGTH * float(np.linalg.norm(scale.std[kept]))
    sums = np.zeros((classes, len(kept)))
    for start in range(0, len(train), _ROWS):
        rows = _unit(np.where(kept, train.features[start : start + _ROWS] - scale.mean, 0.0), least)
        sums += sum_by_class(rows, train.labels[start : start + _ROWS], classes)
    return _unit(sums, _LEAST_LENGTH)


def _unit(rows: NDArray[np.float64], least: float) -> NDArray[np.float64]:
    """Bring rows to length 1; those below the ``least`` length become no longer than they are long in its unit."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: NDArray[np.float64] = rows / np.maximum(lengths, least)
    return unit


def _temperature(logits: NDArray[np.float64], labels: IndexArray) -> float:
    """Find the factor on logits [B, C] with the lowest cross-entropy, between e^-12 and e^12 over their deviation."""
    deviation = float(logits.std())
    unit = 1.0 / deviation if deviation > 0 else 1.0

    def loss(exponent: float) -> float:
        scaled = logits * (unit * np.exp(exponent))
        of_label = np.take_along_axis(scaled, labels[:, None], axis=1)[:, 0]
        return float((logsumexp(scaled, axis=1) - of_label).mean())

    return float(unit * np.exp(minimize_scalar(loss, bounds=(-12.0, 12.0), method="bounded").x))

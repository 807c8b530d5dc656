"""k nearest neighbors: the mean of their targets, or the class that most of them have.

Shapes: N rows, F features, T target values, C classes, K neighbors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor, NearestNeighbors

from mntrain.baselines.rows import BaselineAnswers, KnownRows

CANDIDATES = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50)
"""Numbers of neighbors that validation rows choose from; of equally good ones the smallest."""


def nearest(train: KnownRows, validation: KnownRows, queries: NDArray[np.float32]) -> BaselineAnswers:
    """Answer ``queries`` by the nearest training rows, by Euclidean distance.

    Args:
        train: rows to look among.
        validation: rows that choose k, by squared error or by the share of right classes.
        queries: float32 [N, F].
    """
    candidates = [count for count in CANDIDATES if count <= len(train.inputs)]
    # Neighbors come sorted by distance, so one search serves every k.
    search = NearestNeighbors(n_neighbors=candidates[-1]).fit(train.inputs)
    near = train.targets[search.kneighbors(validation.inputs, return_distance=False)]  # [N, K] or [N, K, T]
    if train.classes:
        errors = _shares_wrong(near, validation.targets, candidates)
        model = KNeighborsClassifier(n_neighbors=candidates[int(np.argmin(errors))])
    else:
        values = near.astype(np.float64)
        errors = [float(np.mean((values[:, :count].mean(axis=1) - validation.targets) ** 2)) for count in candidates]
        model = KNeighborsRegressor(n_neighbors=candidates[int(np.argmin(errors))])
    answers = model.fit(train.inputs, train.targets).predict(queries)
    kind = np.int64 if train.classes else np.float64
    return BaselineAnswers(answers=answers.astype(kind), chosen={"neighbors": model.n_neighbors})


def _shares_wrong(near: NDArray[Any], labels: NDArray[Any], candidates: list[int]) -> list[float]:
    """Share of wrong classes for every k; of classes with equally many neighbors the first wins, as in scikit-learn."""
    votes = np.zeros((len(near), int(near.max()) + 1), np.int64)
    everyone = np.arange(len(near))
    shares = []
    for position in range(candidates[-1]):
        votes[everyone, near[:, position]] += 1
        if position + 1 in candidates:
            shares.append(float(np.mean(votes.argmax(axis=1) != labels)))
    return shares

"""Methods of scikit-learn on standardised features, with settings that validation chooses.

Shapes: N examples, d features, C classes.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from heads.scored import Scored
from mntrain.feature_store.store import FeatureStore


def _logistic(features: int) -> Iterator[tuple[dict[str, Any], Any]]:
    for power in range(-8, 5):
        strength = 10.0 ** (power / 2)
        yield {"C": strength}, LogisticRegression(C=strength, max_iter=5000)


def _nearest(features: int) -> Iterator[tuple[dict[str, Any], Any]]:
    for metric in ("euclidean", "cosine"):
        for count in (1, 3, 5, 10, 20, 50):
            settings = {"n_neighbors": count, "metric": metric}
            yield settings, KNeighborsClassifier(**settings)


def _machine(features: int) -> Iterator[tuple[dict[str, Any], Any]]:
    for cost in (0.3, 1.0, 3.0, 10.0, 30.0):
        for factor in (0.1, 0.3, 1.0, 3.0):
            settings = {"C": cost, "gamma": factor / features}
            yield settings, SVC(**settings)


METHODS: dict[str, Callable[[int], Iterator[tuple[dict[str, Any], Any]]]] = {
    "logistic": _logistic,
    "knn": _nearest,
    "svm": _machine,
}


def measure_fixed(row: str, store: FeatureStore) -> Scored:
    """Fit a method with every setting of its grid; the first best one on the validation split is scored on the test."""
    scaler = StandardScaler().fit(store.train.features)
    train, validation, test = (scaler.transform(part.features) for part in (store.train, store.validation, store.test))
    best: tuple[float, float, dict[str, Any], Any] | None = None
    trials = 0
    for settings, model in METHODS[row](store.features):
        started = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(train, store.train.labels)
        seconds = time.process_time() - started
        accuracy = float(np.mean(model.predict(validation) == store.validation.labels))
        trials += 1
        if best is None or accuracy > best[0]:
            best = (accuracy, seconds, settings, model)
    assert best is not None
    accuracy, seconds, settings, model = best
    return Scored(
        test=float(np.mean(model.predict(test) == store.test.labels)),
        validation=accuracy,
        settings=settings,
        trials=trials,
        seconds=seconds,
        parameters=_parameters(row, model, train.size, store.classes),
    )


def _parameters(row: str, model: Any, numbers: int, classes: int) -> int:
    if row == "logistic":
        return int(model.coef_.size + model.intercept_.size)
    if row == "svm":
        return int(model.support_vectors_.size + model.dual_coef_.size)
    return numbers

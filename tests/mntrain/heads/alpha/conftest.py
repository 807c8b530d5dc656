"""A small long-tailed set with a base classifier."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from mntrain.feature_store.store import FeatureSplit
from mntrain.heads.alpha.problem import AlphaProblem, prepare
from mntrain.heads.alpha.rows import AlphaData
from mntrain.heads.classifier import LinearClassifier
from mntrain.heads.groups import ClassGroups

COUNTS = (*(110,) * 4, *(30,) * 5, *(6,) * 5)
FEATURES = 7


@pytest.fixture(scope="session")
def data() -> AlphaData:
    """14 classes: 4 many, 5 medium, 5 few; 7 features."""
    random = np.random.default_rng(0)
    centers = random.normal(size=(len(COUNTS), FEATURES))
    labels = np.repeat(np.arange(len(COUNTS)), COUNTS)
    features = (centers[labels] + random.normal(size=(len(labels), FEATURES))).astype(np.float32)
    return AlphaData(
        split=FeatureSplit(features=features, labels=labels),
        groups=ClassGroups(counts=np.array(COUNTS)),
        label_names=tuple(f"class {index}" for index in range(len(COUNTS))),
    )


@pytest.fixture(scope="session")
def classifier() -> LinearClassifier:
    """A base classifier of the 14 classes."""
    random = np.random.default_rng(1)
    weight = random.normal(size=(len(COUNTS), FEATURES)).astype(np.float32)
    return LinearClassifier(weight=weight, bias=random.normal(size=len(COUNTS)).astype(np.float32))


@pytest.fixture(scope="session")
def problem(data: AlphaData, classifier: LinearClassifier) -> AlphaProblem:
    """Data and base classifier, in float32."""
    return prepare(data, classifier)


@pytest.fixture(scope="session")
def accuracy(data: AlphaData) -> Callable[[LinearClassifier], dict[str, float]]:
    """Top-1 accuracy on all rows and on those of few classes."""

    def score(classifier: LinearClassifier) -> dict[str, float]:
        right = classifier.logits(data.split.features).argmax(axis=1) == data.split.labels
        return {"all": float(right.mean()), "few": float(right[np.isin(data.split.labels, data.few)].mean())}

    return score

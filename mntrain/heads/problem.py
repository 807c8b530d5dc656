"""Problem and result of a head: what a method is given, and what it hands back.

Shapes: C classes, d features, F classes of few examples, K neighbors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mntrain.data.examples import IndexArray
from mntrain.feature_store.store import FeatureStore
from mntrain.heads.classifier import LinearClassifier
from mntrain.heads.feature_scale import FeatureScale
from mntrain.heads.groups import ClassGroups
from mntrain.heads.scores import HeadPredictor, SplitScores, logit_scores, split_scores
from mntrain.heads.settings import HeadSections


@dataclass(frozen=True, kw_only=True, eq=False)
class HeadSweep:
    """One setting of a head over its values.

    Args:
        name: of the setting, as a figure shows it.
        values: of the setting.
        predictor: value → the head with that value.
        chosen: value of the head itself; None where it is none of them.
    """

    name: str
    values: tuple[float, ...]
    predictor: Callable[[float], HeadPredictor]
    chosen: float | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Composition:
    """Classifiers of classes of few examples as sums of base classifiers (Alpha Net, equation 1).

    Args:
        classes: composed classes, int64 [F].
        neighbors: base classes of each, int64 [F, K].
        coefficients: of the class's own classifier, then of its neighbors, [F, K+1].
        distances: from the mean features of a class to those of its neighbors, [F, K]; None where they are not kept.
    """

    classes: IndexArray
    neighbors: IndexArray
    coefficients: NDArray[Any]
    distances: NDArray[np.float64] | None = None

    @property
    def members(self) -> IndexArray:
        """Classes of each composition, its own first, int64 [F, K + 1]."""
        return np.concatenate([self.classes[:, None], self.neighbors], axis=1)

    def to_json(self, names: Sequence[str]) -> dict[str, Any]:
        """Return plain values, with the names of classes."""
        return {
            "classes": [names[place] for place in self.classes],
            "neighbors": [[names[place] for place in places] for places in self.neighbors],
            "coefficients": self.coefficients.astype(np.float64).tolist(),
            "distances": None if self.distances is None else self.distances.tolist(),
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class HeadResult:
    """Trained head.

    Args:
        predictor: features → scores; a :class:`~mntrain.heads.classifier.LinearClassifier` becomes an artifact.
        scale: standardisation of the features that a linear classifier has learned on.
        chosen: settings that were chosen or learned, as plain values.
        sweeps: settings over their values.
        composition: coefficients of composed classes; None where none is composed.
        details: further plain values for the record, such as the course of a training.
        notes: sentences that users are told, without a full stop.
    """

    predictor: HeadPredictor
    scale: FeatureScale
    chosen: Mapping[str, Any] = field(default_factory=dict)
    sweeps: tuple[HeadSweep, ...] = ()
    composition: Composition | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def linear(self) -> LinearClassifier | None:
        """The classifier, where the head is a linear one."""
        return self.predictor if isinstance(self.predictor, LinearClassifier) else None


@dataclass(frozen=True, kw_only=True, eq=False)
class HeadProblem:
    """Features to classify.

    Args:
        store: features and labels.
        settings: of methods, in sections.
        seed: of weights and of draws.
        scale: standardisation by the training rows.
        groups: classes of few, medium and many examples.
        method: name of the method, for messages.
        start: linear head to start from; None for methods that start from none.
        fit_words: fields of the recipe ``features``, for methods that train a family.
    """

    store: FeatureStore
    settings: HeadSections
    seed: int
    scale: FeatureScale
    groups: ClassGroups
    method: str = "joint"
    start: HeadResult | None = None
    fit_words: tuple[str, ...] = ()

    def base(self) -> tuple[LinearClassifier, FeatureScale]:
        """Return the classifier to start from, and the standardisation that it has learned on."""
        assert self.start is not None
        assert self.start.linear is not None
        return self.start.linear, self.start.scale

    def on_validation(self, predictor: HeadPredictor) -> SplitScores:
        """Score a predictor on the validation rows, which alone may choose."""
        return split_scores(predictor, self.store.validation, self.groups)

    def rank(self, predictor: HeadPredictor) -> tuple[float, float]:
        """Rank a predictor on the validation rows, the better the larger."""
        return self.on_validation(predictor).rank(self.settings.head.choose)

    def rank_logits(self, logits: NDArray[np.float32]) -> tuple[float, float]:
        """Rank logits [N, C] of the validation rows, the better the larger."""
        return logit_scores(logits, self.store.validation.labels, self.groups).rank(self.settings.head.choose)

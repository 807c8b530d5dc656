"""Training rows, class groups and base classifier of a composition, checked against each other.

Shapes: N rows, d features, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mntrain.errors import ConfigError, DataError
from mntrain.heads.alpha.rows import AlphaData
from mntrain.heads.alpha.scores import BaseLogits
from mntrain.heads.classifier import LinearClassifier
from mntrain.heads.feature_scale import FeatureScale
from mntrain.heads.groups import class_means

_NAMED = 5


@dataclass(frozen=True, kw_only=True, eq=False)
class AlphaProblem:
    """Data, base classifier, and what every composition of them needs.

    Args:
        data: training rows.
        classifier: base classifier of all classes; it stays as it is.
        weight: its weights as modules read them, float64 [C, d].
        means: mean features of every class, float64 [C, d].
        logits: of the base classifier for every row.
    """

    data: AlphaData
    classifier: LinearClassifier
    weight: NDArray[np.float64]
    means: NDArray[np.float64]
    logits: BaseLogits


def prepare(
    data: AlphaData, classifier: LinearClassifier, scale: FeatureScale | None = None, dtype: Any = np.float32
) -> AlphaProblem:
    """Check data and base classifier, and compute class means and base logits once.

    Args:
        data: training rows.
        classifier: base classifier, such as that of joint training, cRT or LWS.
        scale: standardisation that the classifier has learned on, on whose scale modules read its weights. Equations 1
            and 2 are the same with and without it.
        dtype: of logits and training, float32 or float64.

    Raises:
        ConfigError: no class is few, or all are.
        DataError: widths, labels or groups that do not fit, a class without rows, a feature that is not finite.
    """
    _check(data, classifier)
    means = class_means(data.split, classifier.classes)
    wrong = ~np.isfinite(means).all(axis=1)
    if wrong.any():
        raise DataError(
            f"Training rows of class {data.label_names[int(wrong.argmax())]!r} hold NaN or infinite features; write "
            "the store again with `mntrain features`, from images or arrays whose values are finite."
        )
    weight, _ = (scale or FeatureScale.identity(classifier.features)).unfolded(classifier)
    return AlphaProblem(
        data=data,
        classifier=classifier,
        weight=weight,
        means=means,
        logits=BaseLogits(data.split, classifier, dtype),
    )


def _check(data: AlphaData, classifier: LinearClassifier) -> None:
    features, labels, classes = data.split.features, data.split.labels, len(data.groups.counts)
    if features.ndim != 2 or labels.shape != features.shape[:1]:
        raise DataError(
            f"Features have shape {list(features.shape)} and labels {list(labels.shape)}; they must be "
            "[rows, features] and [rows]."
        )
    if features.shape[1] != classifier.features:
        raise DataError(
            f"Rows have {features.shape[1]} features, but the base classifier takes {classifier.features}; train the "
            "base classifier on these features."
        )
    if not classes == len(data.label_names) == classifier.classes:
        raise DataError(
            f"There are counts of {classes} classes and {len(data.label_names)} names, but the base classifier has "
            f"{classifier.classes} classes; train the base classifier on these classes."
        )
    if len(labels) and not 0 <= labels.min() <= labels.max() < classes:
        raise DataError(
            f"Labels go from {labels.min()} to {labels.max()}, but the base classifier has {classes} classes, numbered "
            "from 0."
        )
    data.groups.require_few("alpha", neighbors=0)
    if not len(data.groups.members("base")):
        raise ConfigError(
            "Every class is one of few examples, so there are no base classes to compose them from; lower --head.few."
        )
    empty = np.flatnonzero(np.bincount(labels, minlength=classes) == 0)
    if len(empty):
        names = ", ".join(repr(data.label_names[index]) for index in empty[:_NAMED])
        more = f" and {len(empty) - _NAMED} more" if len(empty) > _NAMED else ""
        raise DataError(
            f"No training row is of class {names}{more}, so there is no mean feature to find neighbors by; add "
            "examples or leave the class out (data.classes)."
        )

"""Training rows, class groups and base classifier of a composition, checked against each other.

Shapes: N rows, d features, C classes, F few classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mntrain.errors import ConfigError, DataError
from mntrain.heads.alpha.neighbors import class_means
from mntrain.heads.alpha.rows import AlphaData
from mntrain.heads.alpha.scores import BaseLogits
from mntrain.heads.classifier import LinearClassifier

_GROUPS = ("many", "medium", "few")
_NAMED = 5


@dataclass(frozen=True, kw_only=True, eq=False)
class AlphaProblem:
    """Data, base classifier, and what every composition of them needs.

    Args:
        data: training rows.
        classifier: base classifier of all classes; it stays as it is.
        means: mean features of every class, float64 [C, d].
        logits: of the base classifier for every row.
    """

    data: AlphaData
    classifier: LinearClassifier
    means: NDArray[np.float64]
    logits: BaseLogits


def prepare(data: AlphaData, classifier: LinearClassifier, dtype: Any = np.float32) -> AlphaProblem:
    """Check data and base classifier, and compute class means and base logits once.

    Args:
        data: training rows.
        classifier: base classifier, such as that of joint training, cRT or LWS.
        dtype: of logits and training, float32 or float64.

    Raises:
        ConfigError: no class is few, or all are.
        DataError: widths, labels or groups that do not fit, a class without rows, a feature that is not finite.
    """
    _check(data, classifier)
    means = class_means(data.features, data.labels, classifier.classes)
    return AlphaProblem(data=data, classifier=classifier, means=means, logits=BaseLogits(data, classifier, dtype))


def _check(data: AlphaData, classifier: LinearClassifier) -> None:
    if data.features.ndim != 2 or data.labels.shape != data.features.shape[:1]:
        raise DataError(
            f"Features have shape {list(data.features.shape)} and labels {list(data.labels.shape)}; they must be "
            "[rows, features] and [rows]."
        )
    if data.features.shape[1] != classifier.features:
        raise DataError(
            f"Rows have {data.features.shape[1]} features, but the base classifier takes {classifier.features}; train "
            "the base classifier on these features."
        )
    if not len(data.groups) == len(data.label_names) == classifier.classes:
        raise DataError(
            f"There are groups of {len(data.groups)} classes and {len(data.label_names)} names, but the base "
            f"classifier has {classifier.classes} classes; train the base classifier on these classes."
        )
    if strange := sorted(set(data.groups) - set(_GROUPS)):
        raise DataError(f"{strange[0]!r} is no group of classes; groups are many, medium and few.")
    if len(data.labels) and not 0 <= data.labels.min() <= data.labels.max() < classifier.classes:
        raise DataError(
            f"Labels go from {data.labels.min()} to {data.labels.max()}, but the base classifier has "
            f"{classifier.classes} classes, numbered from 0."
        )
    if not len(data.few):
        raise ConfigError(
            "No class is few, so Alpha Net has nothing to compose; raise the number of examples below which a class "
            "is few, or train on an imbalanced set (data.imbalance)."
        )
    if not len(data.base):
        raise ConfigError(
            "Every class is few, so Alpha Net has no base classes to compose from; lower the number of examples below "
            "which a class is few."
        )
    empty = np.flatnonzero(np.bincount(data.labels, minlength=classifier.classes) == 0)
    if len(empty):
        names = ", ".join(repr(data.label_names[index]) for index in empty[:_NAMED])
        more = f" and {len(empty) - _NAMED} more" if len(empty) > _NAMED else ""
        raise DataError(
            f"No training row is of class {names}{more}, so there is no mean feature to find neighbors by; add "
            "examples or leave the class out (data.classes)."
        )

"""Figures of classification: accuracy, confusion matrix, and precision, recall and F1 of every class.

Shapes: N examples, C classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support, top_k_accuracy_score

from mntrain.data.examples import IndexArray

_TOP = (3, 5)
_CLASSES_FOR_EACH = 3  # the k best of fewer than 3 k classes say little


@dataclass(frozen=True, kw_only=True)
class ClassFigures:
    """Figures of one class.

    Args:
        support: examples of the class.
        predicted: examples that were taken for it.
        precision: share of those taken for it that are of it; 0 where none was taken for it.
        recall: share of its examples that were taken for it.
        f1: harmonic mean of the two.

    The last three are None where the data holds no example of the class.
    """

    support: int
    predicted: int
    precision: float | None
    recall: float | None
    f1: float | None


@dataclass(frozen=True, kw_only=True)
class MacroFigures:
    """Means over the classes that occur, each counted alike.

    Args:
        classes: number of classes that occur.
        precision, recall, f1: means.
    """

    classes: int
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassificationFigures:
    """Figures of predicted classes.

    Args:
        names: class names.
        accuracy: share of right answers.
        classes: figures of each class, in the order of ``names``.
        macro: means over the classes that occur.
        confusion: int64 [C, C]: examples of class i (row) that were taken for class j (column).
        top: k → share of examples whose class is among the k likeliest; empty for few classes.
    """

    names: tuple[str, ...]
    accuracy: float
    classes: tuple[ClassFigures, ...]
    macro: MacroFigures
    confusion: IndexArray
    top: dict[int, float]

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            **({"top_k": {str(count): share for count, share in self.top.items()}} if self.top else {}),
            "macro": asdict(self.macro),
            "classes": {name: asdict(figures) for name, figures in zip(self.names, self.classes, strict=True)},
            "confusion": {"classes": list(self.names), "counts": self.confusion.tolist()},
        }


def classification_figures(
    labels: IndexArray,
    predictions: IndexArray,
    names: Sequence[str],
    probabilities: NDArray[np.float32] | None = None,
) -> ClassificationFigures:
    """Compute the figures of ``predictions`` [N] for ``labels`` [N], both numbers of ``names``.

    Args:
        labels: true classes, int64 [N].
        predictions: int64 [N].
        names: class names.
        probabilities: [N, C], for the shares of the k likeliest; None leaves them out.
    """
    numbers = np.arange(len(names))
    precision, recall, f1, support = precision_recall_fscore_support(
        labels, predictions, labels=numbers, zero_division=0.0
    )
    occurring = support > 0
    confusion = confusion_matrix(labels, predictions, labels=numbers).astype(np.int64)
    classes = tuple(
        ClassFigures(
            support=int(support[number]),
            predicted=int(confusion[:, number].sum()),
            precision=float(precision[number]) if occurring[number] else None,
            recall=float(recall[number]) if occurring[number] else None,
            f1=float(f1[number]) if occurring[number] else None,
        )
        for number in numbers
    )
    return ClassificationFigures(
        names=tuple(names),
        accuracy=float(np.mean(labels == predictions)),
        classes=classes,
        macro=MacroFigures(
            classes=int(occurring.sum()),
            precision=float(precision[occurring].mean()),
            recall=float(recall[occurring].mean()),
            f1=float(f1[occurring].mean()),
        ),
        confusion=confusion,
        top={} if probabilities is None else _top(labels, probabilities),
    )


def _top(labels: IndexArray, probabilities: NDArray[np.float32]) -> dict[int, float]:
    classes = probabilities.shape[1]
    return {
        count: float(top_k_accuracy_score(labels, probabilities, k=count, labels=np.arange(classes)))
        for count in _TOP
        if classes >= _CLASSES_FOR_EACH * count
    }

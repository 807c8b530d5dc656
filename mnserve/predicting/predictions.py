"""Predictions of a batch for Python programs: classes with probabilities, or values.

Shapes: B images or rows in a batch, C classes, T targets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnserve.predicting.explanations import Explanation
from mnserve.predicting.row_answers import RowValueAnswer


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassPredictions:
    """Classes of a batch.

    Attributes:
        labels: Most probable class of each image or row; of equals the first.
        probabilities: Probability of every class [B, C], columns in the order of ``classes``.
        classes: Names of the classes.
        explanations: Neighbors that shaped each answer; empty where none were requested.
        notes: Assumptions about the model, as sentences.
    """

    labels: tuple[str, ...]
    probabilities: NDArray[np.float64]
    classes: tuple[str, ...]
    explanations: tuple[Explanation, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class ValuePredictions:
    """Values of a batch, in the targets' own units.

    Attributes:
        values: Value of every target [B, T].
        targets: Names of the targets.
        explanations: Neighbors that shaped each answer, and its values without adaptation; empty where none were
            requested.
        notes: Assumptions about the model, as sentences.
    """

    values: NDArray[Any]
    targets: tuple[str, ...]
    explanations: tuple[RowValueAnswer, ...] = ()
    notes: tuple[str, ...] = ()

"""Answers of an artifact to examples, kept beside the figures that a run reports.

Shapes: N examples, C classes, T targets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mntrain.artifact import Artifact
from mntrain.data.examples import IndexArray
from mntrain.data.images import ImageSet
from mntrain.data.tables import TableSet
from mntrain.models.base import Estimate, Prediction
from mntrain.training.artifact_data import evaluate_on


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassAnswers:
    """Answers of a classifier.

    Args:
        labels: likeliest class of every example, int64 [N].
        probabilities: float32 [N, C].
        unadapted_labels: int64 [N] before adaptation; None where the family does not adapt.
    """

    labels: IndexArray
    probabilities: NDArray[np.float32]
    unadapted_labels: IndexArray | None


@dataclass(frozen=True, kw_only=True, eq=False)
class ValueAnswers:
    """Answers of a regressor, standardised.

    Args:
        values: float32 [N] of one target, [N, T] of several.
        unadapted_values: the same before adaptation; None where the family does not adapt.
    """

    values: NDArray[np.float32]
    unadapted_values: NDArray[np.float32] | None


def answer(
    artifact: Artifact, examples: ImageSet | TableSet, batch_size: int
) -> tuple[dict[str, Any], ClassAnswers | ValueAnswers]:
    """Answer all ``examples``, whose targets are in their own units.

    Returns:
        The figures that a run reports for a split, and the answers in the order of the examples.
    """
    predictions: list[Any] = []
    figures = evaluate_on(artifact, examples, batch_size, observe=predictions.append)
    if all(isinstance(prediction, Estimate) for prediction in predictions):
        values = _joined([prediction.values for prediction in predictions])
        assert values is not None
        before = _joined([prediction.unadapted_values for prediction in predictions])
        return figures, ValueAnswers(values=values.numpy(), unadapted_values=None if before is None else before.numpy())
    assert all(isinstance(prediction, Prediction) for prediction in predictions)
    logits = _joined([prediction.logits for prediction in predictions])
    assert logits is not None
    before = _joined([prediction.unadapted_logits for prediction in predictions])
    return figures, ClassAnswers(
        labels=logits.argmax(dim=-1).numpy(),
        probabilities=logits.softmax(dim=-1).numpy(),
        unadapted_labels=None if before is None else before.argmax(dim=-1).numpy(),
    )


def _joined(batches: list[Tensor | None]) -> Tensor | None:
    return torch.cat([batch for batch in batches if batch is not None]) if batches[0] is not None else None

"""Answers of classifiers of rows: a class, and perhaps the neighbors that shaped it.

Shapes: C classes, K neighbors, the most important first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnserve.predicting.answers import AnswerReader, LabelledPrediction
from mnserve.repository.row_layout import TableLayout


@dataclass(frozen=True, kw_only=True)
class RowClassAnswer:
    """Class of one row."""

    prediction: LabelledPrediction

    def cells(self) -> list[str]:
        """Lists class and probability; then those without adaptation and the neighbors, if they were requested."""
        best, explanation = self.prediction.top[0], self.prediction.explanation
        cells = [best.label, _probability(best.probability)]
        if explanation is None:
            return cells
        neighbors = "; ".join(f"#{item.entry} {item.weight:.1%} {item.label}" for item in explanation.neighbors)
        return [*cells, explanation.unadapted_label, _probability(explanation.unadapted_probability), neighbors]

    def to_json(self) -> dict[str, Any]:
        """Returns plain JSON values."""
        return {name: value for name, value in self.prediction.to_json().items() if name != "file"}


class RowClassAnswers:
    """Reads the classes of a classifier of rows."""

    def __init__(self, reader: AnswerReader, layout: TableLayout, top: int) -> None:
        self._reader = reader
        self._target = layout.targets[0]
        self._top = top

    @property
    def outputs(self) -> list[str]:
        """Names of the outputs to request."""
        return self._reader.outputs

    @property
    def columns(self) -> list[str]:
        """Class and probability; with an explanation those without adaptation, and the neighbors."""
        words = ("predicted", "unadapted") if self._reader.explains else ("predicted",)
        of_class = [f"{word}_{self._target}{end}" for word in words for end in ("", "_probability")]
        return [*of_class, *(["neighbors"] if self._reader.explains else [])]

    @property
    def notes(self) -> tuple[str, ...]:
        """Assumptions made for the answers, as sentences for the user."""
        return self._reader.notes

    def read(self, outputs: Mapping[str, NDArray[Any]], count: int) -> list[RowClassAnswer]:
        """Reads one class for each of ``count`` rows.

        Raises:
            ImageModelError: An output has another shape, or a value that is not finite.
        """
        predictions = self._reader.read(outputs, [""] * count, self._top)
        return [RowClassAnswer(prediction=prediction) for prediction in predictions]


def _probability(value: float) -> str:
    return str(np.float32(value))

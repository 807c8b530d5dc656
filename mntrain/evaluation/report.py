"""Result of an evaluation.

Shapes: N examples.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from mntrain.evaluation.answers import ClassAnswers, ValueAnswers
from mntrain.evaluation.beside import Baseline
from mntrain.evaluation.classification import ClassificationFigures
from mntrain.evaluation.labelled import LabelledData
from mntrain.evaluation.regression import ValueFigures


@dataclass(frozen=True, kw_only=True, eq=False)
class MeasuredBaseline:
    """A baseline with its figures on the same examples.

    Args:
        baseline: the method.
        figures: of its answers.
    """

    baseline: Baseline
    figures: ClassificationFigures | ValueFigures

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        common = {"inputs": self.baseline.inputs, **self.baseline.found.chosen}
        if isinstance(self.figures, ClassificationFigures):
            return {"accuracy": self.figures.accuracy, "macro": asdict(self.figures.macro), **common}
        return {"mse": self.figures.mse, **self.figures.to_json(), **common}


@dataclass(frozen=True, kw_only=True, eq=False)
class EvaluationReport:
    """Result of an evaluation of an artifact.

    Args:
        artifact: folder of the artifact, as it was given.
        data: the examples.
        run_figures: score and loss, as a run reports them for a split.
        answers: of the model.
        figures: of the answers.
        before: figures before adaptation; None where the family does not adapt.
        baselines: methods of scikit-learn; empty where none was asked for.
    """

    artifact: str
    data: LabelledData
    run_figures: dict[str, Any]
    answers: ClassAnswers | ValueAnswers
    figures: ClassificationFigures | ValueFigures
    before: ClassificationFigures | ValueFigures | None
    baselines: tuple[MeasuredBaseline, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain values: the figures of a run, and those of classes or targets and baselines."""
        values = {"artifact": self.artifact, **self.data.to_json(), **self.run_figures, **self.figures.to_json()}
        if isinstance(self.figures, ValueFigures) and len(self.figures.targets) == 1:
            values["mae"] = self.figures.targets[0].mae
        if self.baselines:
            values["baselines"] = {one.baseline.name: one.to_json() for one in self.baselines}
        return values

"""Evaluate an artifact, from its options to its report.

Shapes: N examples, C classes, T targets.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mntrain.artifact import Artifact, TableArtifact, load_artifact
from mntrain.artifact_config import TableArtifactConfig
from mntrain.data.examples import IndexArray
from mntrain.data.images import ImageData
from mntrain.data.tables import TableData
from mntrain.errors import DataError
from mntrain.evaluation.answers import ClassAnswers, ValueAnswers, answer
from mntrain.evaluation.beside import Baseline, fit_baselines
from mntrain.evaluation.classification import ClassificationFigures, classification_figures
from mntrain.evaluation.files import write_files
from mntrain.evaluation.labelled import LabelledData
from mntrain.evaluation.new_data import load_new_data, shared_with
from mntrain.evaluation.options import EvaluateOptions
from mntrain.evaluation.regression import TargetScale, ValueFigures, value_figures
from mntrain.evaluation.report import EvaluationReport, MeasuredBaseline
from mntrain.training.artifact_data import load_data


def evaluate_artifact(options: EvaluateOptions) -> EvaluationReport:
    """Evaluate an artifact, and write the files that are asked for.

    Raises:
        ArtifactError: the artifact is missing or damaged.
        ConfigError: a field of the new data has no use, or there is no such split.
        DataError: the data is missing, has another layout, or unknown classes; or the run's data is needed and is not
            at hand.
        TrainingError: a file cannot be written.
    """
    artifact = load_artifact(options.artifact)
    new = load_new_data(artifact, options) if options.new_data else None
    data = load_data(artifact.config, options.data_path) if new is None or options.baselines else None
    if new is None:
        assert data is not None
        labelled = _of_run(data, options.split or "test")
    else:
        labelled = new if data is None else _compared(artifact, new, data)
    run_figures, answers = answer(artifact, labelled.examples, options.batch_size)
    check_finite(answers, labelled)
    judge = _Judge(artifact, labelled)
    if isinstance(answers, ClassAnswers):
        figures = judge.classes(answers.labels, answers.probabilities)
        before = None if answers.unadapted_labels is None else judge.classes(answers.unadapted_labels)
    else:
        figures = judge.values(answers.values, answers.unadapted_values)
        before = None if answers.unadapted_values is None else judge.values(answers.unadapted_values)
    found = fit_baselines(artifact, data, labelled.examples) if options.baselines and data is not None else ()
    report = EvaluationReport(
        artifact=str(options.artifact),
        data=labelled,
        run_figures=run_figures,
        answers=answers,
        figures=figures,
        before=before,
        baselines=tuple(MeasuredBaseline(baseline=one, figures=judge.baseline(one)) for one in found),
    )
    if options.output is not None:
        write_files(report, options.output)
    return report


def _of_run(data: ImageData | TableData, split: str) -> LabelledData:
    parts = ("train", "validation", "test") if split == "all" else (split,)
    return LabelledData(
        examples=data.part(split),
        split=split,
        places=tuple(data.place(part, position) for part in parts for position in range(len(data.part(part)))),
    )


def _compared(artifact: Artifact, new: LabelledData, data: ImageData | TableData) -> LabelledData:
    return dataclasses.replace(new, shared=shared_with(artifact.samples, new.examples, data.train))


def check_finite(answers: ClassAnswers | ValueAnswers, data: LabelledData) -> None:
    """Refuse answers that are no numbers, of which no figure can be computed.

    Raises:
        DataError: naming the first example with such an answer.
    """
    outputs = answers.probabilities if isinstance(answers, ClassAnswers) else answers.values
    wrong = np.flatnonzero(~np.isfinite(outputs.reshape(len(outputs), -1)).all(axis=1))
    if len(wrong):
        raise DataError(
            f"The model's answers to {len(wrong)} of {len(outputs)} {data.noun} are not finite, the first to "
            f"{data.places[int(wrong[0])]}; its values may lie far outside those of training: correct or remove it."
        )


class _Judge:
    """Holds answers of any method against the targets of some examples."""

    def __init__(self, artifact: Artifact, data: LabelledData) -> None:
        self._artifact = artifact
        self._targets = data.examples.targets

    def classes(
        self, labels: IndexArray, probabilities: NDArray[np.float32] | None = None
    ) -> ClassificationFigures | ValueFigures:
        """Figures of predicted classes [N]."""
        names = self._artifact.config.labels
        assert names is not None
        return classification_figures(self._targets, labels, names, probabilities)

    def values(
        self, values: NDArray[Any], unadapted: NDArray[Any] | None = None
    ) -> ClassificationFigures | ValueFigures:
        """Figures of standardised estimates [N] or [N, T]."""
        assert isinstance(self._artifact, TableArtifact)
        scale = target_scale(self._artifact.config)
        truth = self._targets.reshape(len(self._targets), -1).astype(np.float64)
        before = None if unadapted is None else scale.own_units(unadapted)
        return value_figures(truth, scale.own_units(values), scale, before)

    def baseline(self, baseline: Baseline) -> ClassificationFigures | ValueFigures:
        """Figures of a method of scikit-learn."""
        answers = baseline.found.answers
        return self.values(answers) if self._artifact.config.labels is None else self.classes(answers)


def target_scale(config: TableArtifactConfig) -> TargetScale:
    """Names and standardisation of the targets of an artifact."""
    scale = config.standardization
    return TargetScale(
        names=config.targets,
        mean=np.atleast_1d(np.asarray(scale.target_mean, np.float64)),
        std=np.atleast_1d(np.asarray(scale.target_std, np.float64)),
    )

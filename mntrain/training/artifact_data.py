"""The splits an artifact was trained and tested on, found again, and an artifact evaluated on them."""

import dataclasses
from typing import Any

from mntrain.artifact import Artifact, ImageArtifact, TableArtifact
from mntrain.artifact_config import ArtifactConfig
from mntrain.data import loading
from mntrain.data.images import ImageData, ImageSet
from mntrain.data.tables import TableData, TableSet
from mntrain.errors import DataError
from mntrain.training.evaluation import ACCURACY, MSE, EvaluationPlan, evaluate
from mntrain.training.regression import regression_figures


def load_split(config: ArtifactConfig, split: str, path: str | None = None) -> ImageSet | TableSet:
    """Load one split of the data that an artifact was trained on.

    Args:
        config: configuration of the artifact.
        split: train, validation, test, or all of them.
        path: new place of the data, if it has moved.

    Raises:
        DataError: the data is missing, or is not the data of the run (its digest differs).
    """
    return load_data(config, path).part(split)


def load_data(config: ArtifactConfig, path: str | None = None) -> ImageData | TableData:
    """Load all splits of the data that an artifact was trained on.

    Args, Raises: as :func:`load_split`.
    """
    source = config.experiment.data
    if path is not None:
        source = dataclasses.replace(source, path=path)
    try:
        data = loading.load_data(source)
    except DataError as error:
        raise DataError(f"{error} Say where the data lies now with --data-path.") from error
    expected = config.split["sha256"]
    if data.split.sha256 != expected:
        noun = "images" if isinstance(data, ImageData) else "rows"
        raise DataError(
            f"The {noun} of {source.path or source.source} are not those the artifact was trained with: their digest "
            f"is {data.split.sha256[:12]}…, the artifact's {expected[:12]}…. Say where the right data lies with "
            "--data-path."
        )
    return data


def evaluate_artifact(artifact: Artifact, examples: ImageSet | TableSet, batch_size: int) -> dict[str, Any]:
    """Evaluate an artifact on ``examples``, targets in their own units, with the figures that a run reports.

    Args:
        batch_size: examples at a time.
    """
    if isinstance(artifact, TableArtifact) and isinstance(examples, TableSet):
        config = artifact.config
        plan = EvaluationPlan(metric=MSE if config.labels is None else ACCURACY, batch_size=batch_size)
        standardised = config.standardization.targets(examples)
        evaluation = evaluate(artifact.model, artifact.preprocessing, standardised, plan)
        return evaluation.to_json() | regression_figures(evaluation, examples, config.standardization)
    assert isinstance(artifact, ImageArtifact)
    plan = EvaluationPlan(metric=ACCURACY, batch_size=batch_size)
    return evaluate(artifact.model, artifact.preprocessing, examples, plan).to_json()

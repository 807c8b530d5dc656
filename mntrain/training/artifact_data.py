"""Data of an artifact: load the splits it was trained and tested on, and evaluate it there."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mntrain.artifact import Artifact, ImageArtifact, TableArtifact, load_artifact
from mntrain.artifact_config import ArtifactConfig, TableArtifactConfig
from mntrain.data import loading
from mntrain.data.images import ImageData, ImageSet
from mntrain.data.split_record import SPLITS
from mntrain.data.tables import TableData, TableSet
from mntrain.errors import ConfigError, DataError
from mntrain.feature_store.store import FeatureSplit
from mntrain.feature_store.writing import store_digest
from mntrain.training import evaluation
from mntrain.training.evaluation import MSE, EvaluationPlan, Metric
from mntrain.training.group_accuracy import accuracy_for, recorded_counts
from mntrain.training.regression import regression_figures


def load_split(config: ArtifactConfig, split: str, path: str | Path | None = None) -> ImageSet | TableSet:
    """Load one split of the data that an artifact was trained on.

    Args:
        config: configuration of the artifact.
        split: train, validation, test, or all of them.
        path: new place of the data, if it has moved.

    Raises:
        DataError: the data is missing, or is not the data of the run (its digest differs); or the artifact was adapted
            to a support set, which has no splits.
    """
    return load_data(config, path).part(split)


def load_data(config: ArtifactConfig, path: str | Path | None = None) -> ImageData | TableData:
    """Load all splits of the data that an artifact was trained on.

    Args, Raises: as :func:`load_split`.
    """
    if config.adapted is not None:
        start, count = config.adapted["start"]["path"], config.adapted["support"]["images"]
        raise DataError(
            f"The artifact was adapted to {count} support images and has no training, validation or test split. "
            "Evaluate it on other labelled images with --data.path; for what needs a split, use the artifact that it "
            f"was adapted from, {start}."
        )
    source = config.experiment.data
    if path is not None:
        source = dataclasses.replace(source, path=str(path))
    if isinstance(config, TableArtifactConfig) and source.source == "table":
        # Artifacts of version 0.1.0 name no target where it was the last column.
        source = dataclasses.replace(source, target_column=config.targets)
    try:
        data = loading.load_data(source)
    except DataError as error:
        raise DataError(f"{error} Say where the data lies now with --data-path.") from error
    expected, found = config.split["sha256"], _digest(config, data)
    if found != expected:
        noun = "images" if isinstance(data, ImageData) else "rows"
        raise DataError(
            f"The {noun} of {source.path or source.source} are not those the artifact was trained with: their digest "
            f"is {found[:12]}…, the artifact's {expected[:12]}…. Say where the right data lies with "
            "--data-path."
        )
    return data


def _digest(config: ArtifactConfig, data: ImageData | TableData) -> str:
    """Return the digest of the splits; heads are made on a whole store, and keep the digest of that."""
    if config.head is None or not isinstance(data, TableData):
        return data.split.sha256
    return store_digest(
        {name: FeatureSplit(features=data.part(name).inputs, labels=data.part(name).targets) for name in SPLITS}
    )


def evaluate(
    artifact: Artifact | str | Path, *, split: str = "test", data_path: str | Path | None = None, batch_size: int = 500
) -> dict[str, Any]:
    """Evaluate an artifact on one split of its data.

    Args:
        artifact: a loaded artifact, or its folder such as ``runs/NAME/artifact``.
        split: train, validation, test or all.
        data_path: new path of the data, where the data was moved after training.
        batch_size: examples of one batch.

    Returns:
        Number of examples, score (accuracy, or mse with rmse in the target's own units) and loss, with and without
        adaptation where the family adapts.

    Raises:
        ArtifactError: the artifact is missing or damaged.
        ConfigError: ``batch_size`` is below 1, or no split has the name.
        DataError: the data is missing, or is not the data of the run.
    """
    if batch_size < 1:
        raise ConfigError(f"batch_size is {batch_size}; it must be at least 1.")
    if split not in (*SPLITS, "all"):
        raise ConfigError(f"split is {split!r}; choose from {', '.join(SPLITS)} or all.")
    loaded = artifact if isinstance(artifact, Artifact) else load_artifact(artifact)
    return evaluate_on(loaded, load_split(loaded.config, split, data_path), batch_size)


def evaluate_on(
    artifact: Artifact,
    examples: ImageSet | TableSet,
    batch_size: int,
    *,
    observe: Callable[[Any], None] = lambda prediction: None,
) -> dict[str, Any]:
    """Evaluate an artifact on ``examples``, targets in their own units, with the figures that a run reports.

    Args:
        batch_size: examples at a time.
        observe: called with the prediction of each batch, in the order of the examples.
    """
    if isinstance(artifact, TableArtifact) and isinstance(examples, TableSet):
        config = artifact.config
        plan = EvaluationPlan(metric=_metric(config), batch_size=batch_size, observe=observe)
        standardised = config.standardization.targets(examples)
        figures = evaluation.evaluate(artifact.model, artifact.preprocessing, standardised, plan)
        return figures.to_json() | regression_figures(figures, examples, config.standardization, config.targets)
    assert isinstance(artifact, ImageArtifact)
    plan = EvaluationPlan(metric=_metric(artifact.config), batch_size=batch_size, observe=observe)
    return evaluation.evaluate(artifact.model, artifact.preprocessing, examples, plan).to_json()


def _metric(config: ArtifactConfig) -> Metric:
    """Squared error of values, or accuracy, of groups of classes too where training was imbalanced."""
    return MSE if config.labels is None else accuracy_for(recorded_counts(config.data, config.labels))

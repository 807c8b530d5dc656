"""Evaluate an artifact on the data that its run was trained with."""

from pathlib import Path
from typing import Any

from mntrain.artifact import Artifact, load_artifact
from mntrain.data.split_record import SPLITS
from mntrain.errors import ConfigError
from mntrain.training.artifact_data import evaluate_artifact, load_split


def evaluate(
    artifact: Artifact | str | Path, *, split: str = "test", data_path: str | None = None, batch_size: int = 500
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
    loaded = artifact if isinstance(artifact, Artifact) else load_artifact(Path(artifact))
    return evaluate_artifact(loaded, load_split(loaded.config, split, data_path), batch_size)

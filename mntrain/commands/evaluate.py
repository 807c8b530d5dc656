"""Command ``mntrain evaluate``: compute score and loss of an artifact."""

import json
from dataclasses import dataclass
from typing import Literal

from mntrain.commands.command import Command
from mntrain.commands.options import ArtifactPath, Count, DataPath
from mntrain.errors import ConfigError

_EPILOG = """\
examples:

  mntrain evaluate runs/digits-meta-neighborhoods/artifact
  mntrain evaluate runs/fashion-mnist-vanilla/artifact --split validation --json
  mntrain evaluate runs/pacs-meta-neighborhoods/artifact --split all   # training examples too, as published for PACS
"""


@dataclass(frozen=True, kw_only=True)
class EvaluateCommand:
    """Options of ``mntrain evaluate``.

    Args:
        artifact: artifact folder (runs/NAME/artifact)
        split: part of the data to evaluate on
        data_path: where the data lies now, if it has moved
        batch_size: examples at a time
        json: print the result as JSON

    Raises:
        ConfigError: batches would be empty.
    """

    artifact: ArtifactPath
    split: Literal["test", "validation", "train", "all"] = "test"
    data_path: DataPath | None = None
    batch_size: Count = 500
    json: bool = False

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ConfigError(f"--batch-size is {self.batch_size}; it must be at least 1.")


def run(command: EvaluateCommand) -> int:
    """Evaluate the artifact and print its score; returns the exit code."""
    from mntrain.artifact import load_artifact
    from mntrain.training.artifact_data import evaluate
    from mntrain.training.evaluation import metric_of

    artifact = load_artifact(command.artifact)
    result = evaluate(artifact, split=command.split, data_path=command.data_path, batch_size=command.batch_size)
    if command.json:
        print(json.dumps({"artifact": str(command.artifact), "split": command.split} | result))
        return 0
    metric = metric_of(result, artifact.config.experiment.name)
    print(f"{command.split} {metric.describe(result)}, loss {result['loss']:.4f}, {result['examples']} examples")
    return 0


COMMAND = Command(
    options=EvaluateCommand,
    run=run,
    summary="score and loss of an artifact on a split",
    description="Accuracy (or squared error) and loss of an artifact on a split of the data it was trained with.",
    epilog=_EPILOG,
)

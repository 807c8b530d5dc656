"""``mntrain evaluate``: score and loss of an artifact."""

import argparse
import json
from pathlib import Path
from typing import Any

from mntrain.commands.parsing import add_command
from mntrain.errors import ConfigError

_EPILOG = """\
examples:

  mntrain evaluate runs/digits-meta-neighborhoods/artifact
  mntrain evaluate runs/fashion-mnist-vanilla/artifact --split validation --json
  mntrain evaluate runs/pacs-meta-neighborhoods/artifact --split all   # training examples too, as published for PACS
"""


def add(commands: Any) -> None:
    """Join the command line."""
    parser = add_command(
        commands,
        "evaluate",
        summary="score and loss of an artifact on a split",
        description="Accuracy (or squared error) and loss of an artifact on a split of the data it was trained with.",
        epilog=_EPILOG,
    )
    parser.add_argument("artifact", type=Path, metavar="ARTIFACT", help="artifact folder (runs/NAME/artifact)")
    parser.add_argument("--split", choices=("test", "validation", "train", "all"), default="test", help="(test)")
    parser.add_argument("--data-path", metavar="PATH", help="where the data lies now, if it has moved")
    parser.add_argument("--batch-size", type=int, default=500, metavar="N", help="examples at a time (500)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    if arguments.batch_size < 1:
        raise ConfigError(f"--batch-size is {arguments.batch_size}; it must be at least 1.")
    from mntrain.artifact import load_artifact
    from mntrain.training.artifact_data import evaluate_artifact, load_split
    from mntrain.training.metric import metric_of

    artifact = load_artifact(arguments.artifact)
    examples = load_split(artifact.config, arguments.split, arguments.data_path)
    found = evaluate_artifact(artifact, examples, arguments.batch_size)
    if arguments.json:
        print(json.dumps({"artifact": str(arguments.artifact), "split": arguments.split} | found))
        return 0
    metric = metric_of(found, artifact.config.experiment.name)
    print(f"{arguments.split} {metric.describe(found)}, loss {found['loss']:.4f}, {len(examples)} examples")
    return 0

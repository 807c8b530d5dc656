"""``mntrain fit``: train a model from a recipe."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mntrain.commands.parsing import add_command

_EPILOG = """\
Every field of the recipe is an option, for instance:

  mntrain fit digits
  mntrain fit fashion-mnist --family vanilla --seed 1
  mntrain fit fashion-mnist --meta_neighborhoods.entries 5000 --training.epochs 20
  mntrain fit cifar10-jpeg --data.path path/to/cifar10-jpeg
  mntrain fit uci --data.path path/to/energy.parquet
  mntrain fit my-recipe.yaml --name first-try
  mntrain fit digits --resume

`mntrain fit RECIPE --fields` lists all fields with their defaults; `mntrain recipes` lists the recipes.
"""


def add(commands: Any) -> None:
    """Join the command line."""
    parser = add_command(
        commands,
        "fit",
        summary="train a model; writes runs/NAME with checkpoints, metrics and the artifact",
        description="Train a model from a recipe; writes runs/NAME with checkpoints, metrics and the artifact.",
        epilog=_EPILOG,
    )
    parser.add_argument("recipe", metavar="RECIPE", help="name of a recipe, or path of a YAML file")
    parser.add_argument("--runs", type=Path, default=Path("runs"), metavar="FOLDER", help="folder of all runs (runs)")
    parser.add_argument("--resume", action="store_true", help="go on from the run's last checkpoint")
    parser.add_argument("--overwrite", action="store_true", help="replace an earlier run of the same name")
    parser.add_argument("--json", action="store_true", help="print the result as JSON, and no progress")
    parser.add_argument("--fields", action="store_true", help="list every field of a recipe, and stop")


def run(arguments: argparse.Namespace, overrides: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    # PyTorch and the data libraries take seconds to import: help and usage errors do not wait for them.
    from mntrain.config import describe_fields, load_experiment

    if arguments.fields:
        print(describe_fields())
        return 0
    config = load_experiment(arguments.recipe, overrides)
    from mntrain.training.fit import fit
    from mntrain.training.run_folder import FitOptions

    options = FitOptions(
        runs=arguments.runs, resume=arguments.resume, overwrite=arguments.overwrite, quiet=arguments.json
    )
    result = fit(config, options)
    if result is None:  # another process of a data-parallel run prints it
        return 0
    if arguments.json:
        print(json.dumps(result, allow_nan=False))
        return 0
    from mntrain.data.sources import find_source
    from mntrain.training.metric import metric_of

    test, folder = result["test"], options.runs / config.name
    own = f", {test['rmse']:.4g} in the target's own units (rmse)" if "rmse" in test else ""
    score = metric_of(test, config.name).describe(test)
    print(f"test {score}{own} on {test['examples']} examples, epoch {result['best_epoch']}")
    rows = find_source(config.data.source).rows
    hint = "" if rows else f"; export it: mnexport {folder / 'artifact'} repository/{config.name}"
    print(f"artifact {folder / 'artifact'}{hint}")
    return 0

"""The command line of mntrain.

Exit codes: 0 done, 1 the work failed, 2 wrong usage.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

from mntrain.errors import ConfigError, MnTrainError
from mntrain.output import run_command

_FIT_EPILOG = """\
Every field of the recipe is an option, for instance:

  mntrain fit digits
  mntrain fit fashion-mnist --family vanilla --seed 1
  mntrain fit fashion-mnist --meta_neighborhoods.entries 5000 --training.epochs 20
  mntrain fit cifar10-jpeg --data.path path/to/cifar10-jpeg
  mntrain fit my-recipe.yaml --name first-try
  mntrain fit digits --resume

`mntrain fit RECIPE --fields` lists all fields with their defaults; `mntrain recipes` lists the recipes.
"""
_EVALUATE_EPILOG = """\
examples:

  mntrain evaluate runs/digits-meta-neighborhoods/artifact
  mntrain evaluate runs/fashion-mnist-vanilla/artifact --split validation --json
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    # Threads that wait for one another by spinning make a shared machine ten times slower; read when PyTorch loads.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    parser = _parser()
    words = list(sys.argv[1:] if argv is None else argv)
    arguments, rest = parser.parse_known_args(words)
    if rest and arguments.command != "fit":
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    commands: dict[str, Callable[[], int]] = {
        "fit": lambda: _fit(arguments, rest),
        "evaluate": lambda: _evaluate(arguments),
        "recipes": _recipes,
    }
    try:
        return run_command(commands[arguments.command])
    except MnTrainError as error:
        print(f"mntrain: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("mntrain: interrupted; a run goes on with the same command and --resume.", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mntrain",
        description="Train models that adapt to every input, and their baselines.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"mn-runtime {version('mn-runtime')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    raw = argparse.RawDescriptionHelpFormatter
    fit = commands.add_parser(
        "fit",
        help="train a model; writes runs/NAME with checkpoints, metrics and the artifact",
        description="Train a model from a recipe; writes runs/NAME with checkpoints, metrics and the artifact.",
        epilog=_FIT_EPILOG,
        formatter_class=raw,
        allow_abbrev=False,
    )
    fit.add_argument("recipe", metavar="RECIPE", help="name of a recipe, or path of a YAML file")
    fit.add_argument("--runs", type=Path, default=Path("runs"), metavar="FOLDER", help="folder of all runs (runs)")
    fit.add_argument("--resume", action="store_true", help="go on from the run's last checkpoint")
    fit.add_argument("--overwrite", action="store_true", help="replace an earlier run of the same name")
    fit.add_argument("--json", action="store_true", help="print the result as JSON, and no progress")
    fit.add_argument("--fields", action="store_true", help="list every field of a recipe, and stop")
    evaluate = commands.add_parser(
        "evaluate",
        help="accuracy and loss of an artifact on a split",
        description="Accuracy and loss of an artifact on a split of the data it was trained with.",
        epilog=_EVALUATE_EPILOG,
        formatter_class=raw,
        allow_abbrev=False,
    )
    evaluate.add_argument("artifact", type=Path, metavar="ARTIFACT", help="artifact folder (runs/NAME/artifact)")
    evaluate.add_argument("--split", choices=("test", "validation", "train"), default="test", help="(test)")
    evaluate.add_argument("--data-path", metavar="PATH", help="where the data lies now, if it has moved")
    evaluate.add_argument("--batch-size", type=int, default=500, metavar="N", help="images at a time (500)")
    evaluate.add_argument("--json", action="store_true", help="print the result as JSON")
    commands.add_parser("recipes", help="list the recipes that come with the package")
    return parser


def _fit(arguments: argparse.Namespace, overrides: Sequence[str]) -> int:
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
    test, folder = result["test"], options.runs / config.name
    adapted = test["unadapted_accuracy"]
    before = "" if adapted is None else f" ({adapted:.2%} before adaptation)"
    print(f"test accuracy {test['accuracy']:.2%}{before} on {test['examples']} images, epoch {result['best_epoch']}")
    print(f"artifact {folder / 'artifact'}; export it: mnexport {folder / 'artifact'} repository/{config.name}")
    return 0


def _evaluate(arguments: argparse.Namespace) -> int:
    if arguments.batch_size < 1:
        raise ConfigError(f"--batch-size is {arguments.batch_size}; it must be at least 1.")
    from mntrain.artifact import load_artifact
    from mntrain.training.evaluation import EvaluationPlan, evaluate
    from mntrain.training.held_out import load_split
    from mntrain.training.metric import ACCURACY

    artifact = load_artifact(arguments.artifact)
    images = load_split(artifact.config, arguments.split, arguments.data_path)
    plan = EvaluationPlan(metric=ACCURACY, batch_size=arguments.batch_size)
    found = evaluate(artifact.model, artifact.preprocessing, images, plan)
    if arguments.json:
        print(json.dumps({"artifact": str(arguments.artifact), "split": arguments.split} | found.to_json()))
        return 0
    before = "" if found.unadapted_score is None else f" ({found.unadapted_score:.2%} before adaptation)"
    print(f"{arguments.split} accuracy {found.score:.2%}{before}, loss {found.loss:.4f}, {found.examples} images")
    return 0


def _recipes() -> int:
    from mntrain.config import recipe_names

    print("\n".join(recipe_names()))
    return 0


if __name__ == "__main__":
    sys.exit(main())

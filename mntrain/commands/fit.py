"""Command ``mntrain fit``: train a model from a recipe."""

import json
from dataclasses import dataclass
from pathlib import Path

from mntrain.commands.command import Command
from mntrain.commands.options import FolderPath, OtherWords, RecipeName
from mntrain.terminal_text import printable

_EPILOG = """\
Every field of the recipe is an option, for instance:

  mntrain fit digits
  mntrain fit fashion-mnist --family vanilla --seed 1
  mntrain fit pacs --data.path path/to/pacs --family mn+ifilm
  mntrain fit fashion-mnist --meta_neighborhoods.entries 5000 --training.epochs 20
  mntrain fit cifar10-jpeg --data.path path/to/cifar10-jpeg
  mntrain fit uci --data.path path/to/energy.parquet
  mntrain fit my-recipe.yaml --name first-try
  mntrain fit digits --resume

`mntrain fit RECIPE --fields` tells what each field means and may hold; `mntrain recipes` lists the recipes.
--family takes vanilla, meta_neighborhoods (or mn) and maxl, each with +ifilm, as in mn+ifilm; ifilm is vanilla+ifilm.
"""


@dataclass(frozen=True, kw_only=True)
class FitCommand:
    """Options of ``mntrain fit``.

    Args:
        recipe: name of a recipe, or path of a YAML file
        overrides: fields of the recipe
        runs: folder of all runs
        resume: go on from the run's last checkpoint
        overwrite: replace an earlier run of the same name
        json: print the result as JSON, and no progress
        fields: list every field of a recipe, and stop
    """

    recipe: RecipeName
    overrides: OtherWords = ()
    runs: FolderPath = Path("runs")
    resume: bool = False
    overwrite: bool = False
    json: bool = False
    fields: bool = False


def run(command: FitCommand) -> int:
    """Train the model, and print its score on the test split; returns the exit code."""
    # PyTorch and the data libraries take seconds to import: help and usage errors do not wait for them.
    from mntrain.config import load_experiment

    if command.fields:
        from mntrain.fields.description import describe_fields

        print(describe_fields())
        return 0
    config = load_experiment(command.recipe, command.overrides)
    from mntrain.training.fit import fit
    from mntrain.training.run_folder import FitOptions

    options = FitOptions(runs=command.runs, resume=command.resume, overwrite=command.overwrite, quiet=command.json)
    result = fit(config, options)
    if result is None:  # another process of a data-parallel run prints it
        return 0
    if command.json:
        print(json.dumps(result, allow_nan=False))
        return 0
    from mntrain.acting.record import AdaptationRecord
    from mntrain.training.evaluation import metric_of
    from mntrain.training.regression import describe_targets

    test, folder = result["test"], options.runs / config.name
    unscaled = f", {test['rmse']:.4g} in the target's own units (rmse)" if "rmse" in test else ""
    metric = metric_of(test, config.name)
    score = metric.describe(test)
    print(f"test {score}{unscaled} on {test['examples']} examples, epoch {result['best_epoch']}")
    for line in describe_targets(test):
        print(printable(f"  {line}"))
    record = AdaptationRecord.from_metrics(result)
    if record is not None:
        for sentence in (record.describe(metric), *record.describe_neighbors()):
            print(sentence)
        for verdict in record.verdicts():
            print(f"note: {verdict}")
    artifact = folder / "artifact"
    print(printable(f"artifact {artifact}; export it: mnexport {artifact} repository/{config.name}"))
    return 0


COMMAND = Command(
    options=FitCommand,
    run=run,
    summary="train a model; writes runs/NAME with checkpoints, metrics and the artifact",
    description="Train a model from a recipe; writes runs/NAME with checkpoints, metrics and the artifact.",
    epilog=_EPILOG,
    after_interrupt="; a run goes on with the same command and --resume",
)

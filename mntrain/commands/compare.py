"""Command ``mntrain compare``: train variants over seeds and compare them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from mntrain.commands.command import Command
from mntrain.commands.lists import names, whole_numbers
from mntrain.commands.options import Count, FolderPath, Option, OtherWords, RecipeName

_STANDARD = "vanilla,vanilla+ifilm,mn,mn+ifilm,maxl"
_EPILOG = """\
Each variant is trained once with each seed, as runs/RECIPE-VARIANT-seedN; finished runs are read, broken-off runs go
on, so a comparison can be stopped and started again. Further options are fields of the recipe, for every run.

  mntrain compare digits
  mntrain compare fashion-mnist --variants vanilla,mn
  mntrain compare pacs --data.path path/to/pacs --variants vanilla,vanilla+ifilm,mn,mn+ifilm,maxl --seeds 0,1,2
  mntrain compare digits --variants vanilla,mn --variant 'mn-T05=--meta_neighborhoods.temperature 0.5'
  mntrain compare digits --sweep meta_neighborhoods.entries=50,100,500,1000 --training.epochs 20
  mntrain compare digits --variants vanilla,vanilla-equal,mn-paper,mn-data --seeds 0,1,2,3,4
  mntrain compare digits --variants dot-adamw,cos-adamw,mn-1-scalar,mn-3-scalar --baseline dot-adamw
  mntrain compare cifar10-cnn9 --variants cnn,cnn++,static-dns,dynamic-dns --seeds 0,1,2

Writes compare.json, compare.svg and compare.md into runs/compare-RECIPE. A run that fails does not stop the others; the
exit code is then 1.
"""


@dataclass(frozen=True, kw_only=True)
class CompareCommand:
    """Options of ``mntrain compare``.

    Args:
        recipe: name of a recipe, or path of a YAML file
        overrides: fields of the recipe, for every run
        variants: built-in variants (vanilla,vanilla+ifilm,mn,mn+ifilm,maxl; with --sweep: vanilla)
        variant: one of your own; repeatable
        sweep: a variant for each value; repeatable
        seeds: seeds that each variant is trained with
        baseline: differences are taken to it (the first variant)
        runs: folder of all runs
        output: folder of the result (RUNS/compare-RECIPE)
        jobs: runs at the same time, sharing the cores
        json: print the result as JSON, and no progress
    """

    recipe: RecipeName
    overrides: OtherWords = ()
    variants: Annotated[str, Option(metavar="A,B")] | None = None
    variant: tuple[Annotated[str, Option(metavar="'NAME=--field value'")], ...] = ()
    sweep: tuple[Annotated[str, Option(metavar="FIELD=V1,V2")], ...] = ()
    seeds: Annotated[tuple[int, ...], Option(metavar="A,B", parse=whole_numbers("--seeds", "0,1,2"))] = (0, 1, 2)
    baseline: Annotated[str, Option(metavar="VARIANT")] | None = None
    runs: FolderPath = Path("runs")
    output: FolderPath | None = None
    jobs: Count = 1
    json: bool = False


def run(command: CompareCommand) -> int:
    """Train the missing runs, and print the comparison; returns the exit code."""
    from mntrain.comparison.plan import CompareOptions
    from mntrain.comparison.session import compare
    from mntrain.comparison.variants import built_in, custom, sweep

    sweeps = tuple(sweep(text) for text in command.sweep)
    own = tuple(custom(text) for text in command.variant)
    chosen = command.variants if command.variants is not None else ("vanilla" if sweeps else _STANDARD)
    variants = (*built_in(names(chosen)), *own)
    rows = (*variants, *(variant for swept in sweeps for variant in swept.variants()))
    comparison = compare(
        CompareOptions(
            recipe=command.recipe,
            variants=variants,
            sweeps=sweeps,
            seeds=command.seeds,
            baseline=command.baseline or (rows[0].name if rows else ""),
            overrides=command.overrides,
            runs=command.runs,
            output=command.output,
            jobs=command.jobs,
            quiet=command.json,
        )
    )
    if command.json:
        print(json.dumps(comparison.to_json(), allow_nan=False))
    else:
        from rich.console import Console

        from mntrain.comparison.table import print_comparison

        print_comparison(Console(), comparison)
    return 1 if comparison.failures else 0


COMMAND = Command(
    options=CompareCommand,
    run=run,
    summary="train variants over several seeds: a table, JSON and a plot",
    description="Train variants of a recipe over several seeds, and tell their test accuracies apart.",
    epilog=_EPILOG,
    after_interrupt="; the same command goes on where it stopped",
)

"""Command ``mntrain crossval``: cross-validate scikit-learn, a plain network and Meta-Neighborhoods on tables."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from mntrain.commands.command import Command
from mntrain.commands.lists import names, numbers, whole_numbers
from mntrain.commands.options import Count, FolderPath, Option, OtherWords, RecipeName


def _parse_decays(text: str) -> tuple[float, ...]:
    return () if text == "own" else numbers("--decays", "2,3")(text)


_Names = Annotated[tuple[str, ...], Option(metavar="A,B", parse=names)]
_Layers = Annotated[tuple[int, ...], Option(metavar="A,B", parse=whole_numbers("--layers", "2,3"))]
_Units = Annotated[tuple[int, ...], Option(metavar="A,B", parse=whole_numbers("--units", "2,3"))]
_Decays = Annotated[tuple[float, ...], Option(metavar="A,B", parse=_parse_decays)]

_EPILOG = """\
The architecture is searched with the plain network on the first fold's validation rows, and used by every network;
there too each network's weight decay is chosen.
Runs are kept under RUNS/RECIPE-crossval; finished ones are read, broken-off ones go on, so the command can be stopped
and started again. Further options are fields of the recipe, for every run.

  mntrain crossval uci --data.path path/to/table.csv
  mntrain crossval uci-energy uci-concrete uci-airfoil --data-root path/to/uci
  mntrain crossval uci-wine --data-root path/to/uci --layers 2,3 --units 64,128 --jobs 2
  mntrain crossval uci-energy --data-root path/to/uci --no-search --decays own --backbone.layers 3 --backbone.units 128
  mntrain crossval uci-energy --data-root path/to/uci --families vanilla,meta_neighborhoods --json
  mntrain crossval uci-energy --data-root path/to/uci --families knn,vanilla,mn-paper,mn-data

Writes crossval.json, crossval.md and crossval.svg into RUNS/crossval. A run that fails does not stop the others; the
exit code is then 1.
"""


@dataclass(frozen=True, kw_only=True)
class CrossvalCommand:
    """Options of ``mntrain crossval``.

    Args:
        recipes: name of a recipe, or path of a YAML file; a row each
        overrides: fields of the recipe, for every run
        families: methods to compare; mn is short for meta_neighborhoods, mn-paper and mn-data are it with that start
        folds: number of folds
        search: search the architecture
        layers: hidden layers to search
        units: widths to search
        decays: weight decays to search, for each network by itself; 'own' leaves the recipe's
        data_root: where the recipes' data files lie (.)
        runs: folder of all runs
        output: folder of the result (RUNS/crossval)
        jobs: runs at the same time
        json: print the result as JSON, and no progress
    """

    recipes: tuple[RecipeName, ...]
    overrides: OtherWords = ()
    families: _Names = ("knn", "gradient_boosting", "vanilla", "meta_neighborhoods")
    folds: Annotated[int, Option(metavar="K")] = 5
    search: bool = True
    layers: _Layers = (2, 3, 4, 5)
    units: _Units = (32, 64, 128, 256)
    decays: _Decays = (0, 0.075, 0.75)
    data_root: FolderPath | None = None
    runs: FolderPath = Path("runs")
    output: FolderPath | None = None
    jobs: Count = 1
    json: bool = False


def run(command: CrossvalCommand) -> int:
    """Train the missing runs, and print the cross-validation; returns the exit code."""
    from mntrain.crossval.plan import CrossvalOptions

    options = CrossvalOptions(
        recipes=command.recipes,
        families=command.families,
        folds=command.folds,
        search=command.search,
        layers=command.layers,
        units=command.units,
        decays=command.decays,
        data_root=command.data_root,
        overrides=command.overrides,
        runs=command.runs,
        output=command.output,
        jobs=command.jobs,
        quiet=command.json,
    )
    from mntrain.crossval.session import crossval

    result = crossval(options)
    if command.json:
        print(json.dumps(result.to_json(), allow_nan=False))
        return 1 if result.failures else 0
    from rich.console import Console

    from mntrain.crossval.table import print_crossval

    print_crossval(Console(), result)
    return 1 if result.failures else 0


COMMAND = Command(
    options=CrossvalCommand,
    run=run,
    summary="cross-validate regression on tables: kNN, gradient boosting, a plain network, Meta-Neighborhoods",
    description="Cross-validate regression on tables, and tell the families' errors apart.",
    epilog=_EPILOG,
    after_interrupt="; the same command goes on where it stopped",
)

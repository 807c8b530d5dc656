"""``mntrain crossval``: kNN, a plain network and Meta-Neighborhoods on the folds of tables."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from mntrain.commands.parsing import add_command
from mntrain.errors import ConfigError

N = TypeVar("N", int, float)

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

Writes crossval.json, crossval.md and crossval.svg into RUNS/crossval. A run that fails does not stop the others; the
exit code is then 1.
"""


def add(commands: Any) -> None:
    """Join the command line."""
    parser = add_command(
        commands,
        "crossval",
        summary="cross-validate regression on tables: kNN, a plain network, Meta-Neighborhoods",
        description="Cross-validate regression on tables, and tell the families' errors apart.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "recipes", metavar="RECIPE", nargs="+", help="name of a recipe, or path of a YAML file; a row each"
    )
    parser.add_argument(
        "--families", default="knn,vanilla,meta_neighborhoods", metavar="A,B", help="(knn,vanilla,meta_neighborhoods)"
    )
    parser.add_argument("--folds", type=int, default=5, metavar="K", help="(5)")
    parser.add_argument(
        "--search", action=argparse.BooleanOptionalAction, default=True, help="search the architecture (--search)"
    )
    parser.add_argument("--layers", default="2,3,4,5", metavar="A,B", help="hidden layers to search (2,3,4,5)")
    parser.add_argument("--units", default="32,64,128,256", metavar="A,B", help="widths to search (32,64,128,256)")
    parser.add_argument(
        "--decays",
        default="0,0.075,0.75",
        metavar="A,B",
        help="weight decays to search, for each network by itself; 'own' leaves the recipe's (0,0.075,0.75)",
    )
    parser.add_argument("--data-root", type=Path, metavar="FOLDER", help="where the recipes' data files lie (.)")
    parser.add_argument("--runs", type=Path, default=Path("runs"), metavar="FOLDER", help="folder of all runs (runs)")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="folder of the result (RUNS/crossval)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="runs at the same time (1)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON, and no progress")


def run(arguments: argparse.Namespace, overrides: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    from mntrain.crossval.plan import CrossvalOptions

    options = CrossvalOptions(
        recipes=tuple(arguments.recipes),
        families=tuple(name.strip() for name in arguments.families.split(",") if name.strip()),
        folds=arguments.folds,
        search=arguments.search,
        layers=_numbers(int, "layers", arguments.layers),
        units=_numbers(int, "units", arguments.units),
        decays=() if arguments.decays == "own" else _numbers(float, "decays", arguments.decays),
        data_root=arguments.data_root,
        overrides=tuple(overrides),
        runs=arguments.runs,
        output=arguments.output,
        jobs=arguments.jobs,
        quiet=arguments.json,
    )
    from mntrain.crossval.session import crossval

    result = crossval(options)
    if arguments.json:
        print(json.dumps(result.to_json(), allow_nan=False))
        return 1 if result.failures else 0
    from rich.console import Console

    from mntrain.crossval.table import print_crossval

    print_crossval(Console(), result)
    return 1 if result.failures else 0


def _numbers(kind: type[N], name: str, text: str) -> tuple[N, ...]:
    try:
        return tuple(kind(number) for number in text.split(","))
    except ValueError as error:
        wanted = "whole numbers" if kind is int else "numbers"
        raise ConfigError(f"--{name} is {text!r}; it must be {wanted} separated by commas, as in 2,3.") from error

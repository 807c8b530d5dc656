"""``mntrain compare``: variants and seeds side by side."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mntrain.commands.parsing import add_command
from mntrain.errors import ConfigError

_STANDARD = "vanilla,vanilla+ifilm,mn,mn+ifilm,maxl"
_EPILOG = """\
Each variant is trained once with each seed, as runs/RECIPE-VARIANT-seedN; finished runs are read, broken-off runs go
on, so a comparison can be stopped and started again. Further options are fields of the recipe, for every run.

  mntrain compare digits
  mntrain compare fashion-mnist --variants vanilla,mn
  mntrain compare pacs --data.path path/to/pacs --variants vanilla,vanilla+ifilm,mn,mn+ifilm,maxl --seeds 0,1,2
  mntrain compare digits --variants vanilla,mn --variant 'mn-T05=--meta_neighborhoods.temperature 0.5'
  mntrain compare digits --sweep meta_neighborhoods.entries=50,100,500,1000 --training.epochs 20
  mntrain compare digits --variants dot-adamw,cos-adamw,mn-1-scalar,mn-3-scalar --baseline dot-adamw

Writes compare.json, compare.svg and compare.md into runs/compare-RECIPE. A run that fails does not stop the others; the
exit code is then 1.
"""


def add(commands: Any) -> None:
    """Join the command line."""
    parser = add_command(
        commands,
        "compare",
        summary="train variants over several seeds: a table, JSON and a plot",
        description="Train variants of a recipe over several seeds, and tell their test accuracies apart.",
        epilog=_EPILOG,
    )
    parser.add_argument("recipe", metavar="RECIPE", help="name of a recipe, or path of a YAML file")
    parser.add_argument("--variants", metavar="A,B", help=f"built-in variants ({_STANDARD}; with --sweep: vanilla)")
    parser.add_argument(
        "--variant", action="append", default=[], metavar="'NAME=--field value'", help="one of your own; repeatable"
    )
    parser.add_argument(
        "--sweep", action="append", default=[], metavar="FIELD=V1,V2", help="a variant for each value; repeatable"
    )
    parser.add_argument("--seeds", default="0,1,2", metavar="A,B", help="(0,1,2)")
    parser.add_argument("--baseline", metavar="VARIANT", help="differences are taken to it (the first variant)")
    parser.add_argument("--runs", type=Path, default=Path("runs"), metavar="FOLDER", help="folder of all runs (runs)")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="folder of the result (RUNS/compare-RECIPE)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="runs at the same time, sharing the cores (1)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON, and no progress")


def run(arguments: argparse.Namespace, overrides: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    from mntrain.comparison.plan import CompareOptions
    from mntrain.comparison.session import compare
    from mntrain.comparison.variants import built_in, custom, sweep

    sweeps = tuple(sweep(text) for text in arguments.sweep)
    own = tuple(custom(text) for text in arguments.variant)
    names = arguments.variants if arguments.variants is not None else ("vanilla" if sweeps else _STANDARD)
    variants = (*built_in([name.strip() for name in names.split(",") if name.strip()]), *own)
    rows = (*variants, *(one for swept in sweeps for one in swept.variants()))
    comparison = compare(
        CompareOptions(
            recipe=arguments.recipe,
            variants=variants,
            sweeps=sweeps,
            seeds=_seeds(arguments.seeds),
            baseline=arguments.baseline or (rows[0].name if rows else ""),
            overrides=tuple(overrides),
            runs=arguments.runs,
            output=arguments.output,
            jobs=arguments.jobs,
            quiet=arguments.json,
        )
    )
    if arguments.json:
        print(json.dumps(comparison.to_json(), allow_nan=False))
    else:
        from rich.console import Console

        from mntrain.comparison.table import print_comparison

        print_comparison(Console(), comparison)
    return 1 if comparison.failures else 0


def _seeds(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(seed) for seed in text.split(","))
    except ValueError as error:
        raise ConfigError(f"--seeds is {text!r}; it must be whole numbers separated by commas, as in 0,1,2.") from error

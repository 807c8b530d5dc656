"""The command line of mntrain. Each command is a file of ``mntrain/commands/``.

Exit codes: 0 done, 1 the work failed, 2 wrong usage.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version

from mntrain.commands import animate, compare, crossval, evaluate, fit, neighbors, recipes, report
from mntrain.commands.output import run_command
from mntrain.errors import MnTrainError

# Commands whose further words are fields of a recipe.
_TAKE_FIELDS = ("fit", "compare", "crossval")
_GO_ON = {
    "fit": "; a run goes on with the same command and --resume",
    "compare": "; the same command goes on where it stopped",
    "crossval": "; the same command goes on where it stopped",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    # Threads that wait for one another by spinning make a shared machine ten times slower; read when PyTorch loads.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    parser = _parser()
    words = list(sys.argv[1:] if argv is None else argv)
    arguments, rest = parser.parse_known_args(words)
    if rest and arguments.command not in _TAKE_FIELDS:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    commands: dict[str, Callable[[], int]] = {
        "fit": lambda: fit.run(arguments, rest),
        "evaluate": lambda: evaluate.run(arguments),
        "compare": lambda: compare.run(arguments, rest),
        "report": lambda: report.run(arguments),
        "animate": lambda: animate.run(arguments),
        "neighbors": lambda: neighbors.run(arguments),
        "crossval": lambda: crossval.run(arguments, rest),
        "recipes": recipes.run,
    }
    try:
        return run_command(commands[arguments.command])
    except MnTrainError as error:
        print(f"mntrain: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(f"mntrain: interrupted{_GO_ON.get(arguments.command, '')}.", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mntrain",
        description="Train models that adapt to every input, and their baselines.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"mn-runtime {version('mn-runtime')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in (fit, evaluate, compare, crossval, report, animate, neighbors, recipes):
        command.add(commands)
    return parser

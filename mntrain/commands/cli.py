"""The command line of mntrain: an entry for each command, which is a module of this folder.

Exit codes: 0 done, 1 the work failed, 2 wrong usage, 130 interrupted.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from types import MappingProxyType
from typing import Any

from mntrain.commands import animate, compare, crossval, data, evaluate, fit, neighbors, recipes, report
from mntrain.commands.command import Command
from mntrain.commands.options import takes_other_words
from mntrain.commands.output import end_at_sigterm, run_command
from mntrain.errors import MnTrainError
from mntrain.missing_packages import missing_extra
from mntrain.terminal_text import printable

COMMANDS: Mapping[str, Command[Any]] = MappingProxyType(
    {
        "data": data.COMMAND,
        "fit": fit.COMMAND,
        "evaluate": evaluate.COMMAND,
        "compare": compare.COMMAND,
        "crossval": crossval.COMMAND,
        "report": report.COMMAND,
        "animate": animate.COMMAND,
        "neighbors": neighbors.COMMAND,
        "recipes": recipes.COMMAND,
    }
)

_WRONG_USAGE = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    # Threads that wait for one another by spinning make a shared machine ten times slower; read when PyTorch loads.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    end_at_sigterm()
    words = list(sys.argv[1:] if argv is None else argv)
    remedy = ""
    try:
        parser = _parser()
        values, other_words = parser.parse_known_args(words)
        command = COMMANDS[values.command]
        remedy = command.after_interrupt
        if other_words and not takes_other_words(command.options):
            parser.error(f"unrecognized arguments: {' '.join(other_words)}")
        return run_command(lambda: command.start(values, other_words))
    except MnTrainError as error:
        print(f"mntrain: {printable(str(error))}", file=sys.stderr)
        return error.exit_code
    except ModuleNotFoundError as error:
        sentence = missing_extra(error, "this command", "train")
        if sentence is None:
            raise
        print(f"mntrain: {sentence}", file=sys.stderr)
        return _WRONG_USAGE
    except KeyboardInterrupt:
        print(f"mntrain: interrupted{remedy}.", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mntrain",
        description="Train models that adapt to every input, and their baselines.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"mn-runtime {version('mn-runtime')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        command.add_to(commands, name)
    return parser

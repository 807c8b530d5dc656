"""The command line of mntrain: an entry for each command, which is a module of this folder.

Exit codes: 0 done, 1 the work failed, 2 wrong usage, 130 interrupted.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from types import MappingProxyType
from typing import Any

from mntrain.commands import (
    adapt,
    animate,
    compare,
    crossval,
    data,
    evaluate,
    fewshot,
    fit,
    head,
    neighbors,
    recipes,
    report,
)
from mntrain.commands.command import Command
from mntrain.commands.options import add_options, takes_other_words
from mntrain.commands.output import end_at_sigterm, run_command
from mntrain.commands.parser import CommandParser, nearest_option
from mntrain.errors import ConfigError, MnTrainError
from mntrain.missing_packages import missing_extra
from mntrain.terminal_text import printable

COMMANDS: Mapping[str, Command[Any]] = MappingProxyType(
    {
        "data": data.COMMAND,
        "fit": fit.COMMAND,
        "evaluate": evaluate.COMMAND,
        "compare": compare.COMMAND,
        "crossval": crossval.COMMAND,
        "fewshot": fewshot.COMMAND,
        "adapt": adapt.COMMAND,
        "head": head.COMMAND,
        "report": report.COMMAND,
        "animate": animate.COMMAND,
        "neighbors": neighbors.COMMAND,
        "recipes": recipes.COMMAND,
    }
)

_WRONG_USAGE = 2
# Fields of a recipe that stand in no section; a recipe is read by libraries that take seconds to import.
_OF_THE_RUN = ("--name", "--family", "--seed", "--normalization")


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
        _check_options(command, values.command, other_words)
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


def _check_options(command: Command[Any], name: str, other_words: Sequence[str]) -> None:
    """Refuse options that the command does not have; those that may be fields of a recipe are left to it."""
    parser = CommandParser(prog=f"mntrain {name}")
    add_options(parser, command.options)
    if other_words and not takes_other_words(command.options):
        parser.error(f"unrecognized arguments: {' '.join(other_words)}")
    for word in other_words:
        option = word.partition("=")[0]
        if not option.startswith("--") or "." in option or option in _OF_THE_RUN:
            continue
        if (near := nearest_option(option, parser.options)) is not None:
            raise ConfigError(f"{option} is no option of `mntrain {name}`; did you mean {near}?")


def _parser() -> CommandParser:
    parser = CommandParser(prog="mntrain", description="Train models that adapt to every input, and their baselines.")
    parser.add_argument("--version", action="version", version=f"mn-runtime {version('mn-runtime')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        command.add_to(commands, name)
    return parser

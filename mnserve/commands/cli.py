"""The command line of mnserve.

Exit codes: 0 done, 1 the work failed, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib.metadata import version
from typing import Any, Final

from mnserve.commands.bench import BENCH
from mnserve.commands.check import CHECK
from mnserve.commands.command import CommandSpec
from mnserve.commands.dataclass_options import SettingsParser, settings_from
from mnserve.commands.health import HEALTH
from mnserve.commands.predict import PREDICT
from mnserve.commands.ray import RAY
from mnserve.commands.serve import SERVE
from mnserve.commands.streams import flushed, show_any_text
from mnserve.commands.tune import TUNE
from mnserve.errors import MnServeError, SettingsError
from mnserve.missing_packages import missing_extra
from mnserve.text.names import printable

_log = logging.getLogger(__name__)

COMMANDS: Final[tuple[CommandSpec[Any], ...]] = (SERVE, RAY, PREDICT, BENCH, TUNE, CHECK, HEALTH)

_WITH_COMMAS: Final = ("provider_options",)
_COMMA_LISTS: Final = ("batch", "callers")


def main(argv: Sequence[str] | None = None, commands: Sequence[CommandSpec[Any]] = COMMANDS) -> int:
    """Runs the command line.

    Args:
        argv: Words after the name of the program; None takes those of the process.
        commands: The commands to choose from.

    Returns:
        The exit code.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    show_any_text()
    try:
        return flushed(lambda: _dispatch(words, {command.name: command for command in commands}))
    except MnServeError as error:
        print(f"mnserve: {printable(str(error))}", file=sys.stderr)
        return error.exit_code
    except ModuleNotFoundError as error:
        sentence = missing_extra(error, "this command", "serve")
        if sentence is None:
            raise
        print(f"mnserve: {sentence}; on a machine with an NVIDIA GPU '.[serve-gpu]' instead", file=sys.stderr)
        return SettingsError.exit_code
    except KeyboardInterrupt:
        print("mnserve: interrupted", file=sys.stderr)
        return 130


def _dispatch(words: list[str], commands: dict[str, CommandSpec[Any]]) -> int:
    if not words or words[0] not in commands:
        if words and (near := get_close_matches(words[0], commands, n=1)):
            _overview(commands).error(f"there is no command '{printable(words[0])}'; did you mean {near[0]}?")
        _overview(commands).parse_args(words)  # prints help, the version, or a mistake, and exits
    return _run(commands[words[0]], words[1:])


def _run(command: CommandSpec[Any], words: list[str]) -> int:
    settings_class = command.settings()
    parser = SettingsParser(
        settings_class,
        reads_environment=command.reads_environment,
        with_commas=_WITH_COMMAS,
        comma_lists=_COMMA_LISTS,
        prog=f"mnserve {command.name}",
        description=f"{command.summary[0].upper()}{command.summary[1:]}.",
        epilog=f"examples:\n{command.examples}",
        env_prefix=command.env_prefix,
        foreign_prefixes=tuple(other.env_prefix for other in COMMANDS if other.env_prefix != command.env_prefix),
    )
    settings = settings_from(settings_class, parser.parse_args(words))
    if command.configure_log is not None:
        command.configure_log(settings)
    for warning in parser.warnings:
        _log.warning("%s", warning)
    return command.run(settings)


def _overview(commands: dict[str, CommandSpec[Any]]) -> argparse.ArgumentParser:
    examples = "\n".join(command.examples.splitlines()[0] for command in commands.values())
    parser = argparse.ArgumentParser(
        prog="mnserve",
        description="Serve ONNX models over the Open Inference Protocol, predict with them, time, tune and check them.",
        epilog=f"examples:\n{examples}\n\n`mnserve COMMAND --help` lists the options of a command.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"mn-runtime {version('mn-runtime')}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in commands.items():
        subparsers.add_parser(name, help=command.summary)
    return parser

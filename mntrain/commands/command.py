"""Commands of a command line."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic

from mntrain.commands.options import Settings, add_options, read_options


@dataclass(frozen=True, kw_only=True)
class Command(Generic[Settings]):
    """Command with its options and help texts.

    Args:
        options: dataclass whose fields are the options.
        run: runs the command and returns the exit code.
        summary: line in the list of commands.
        description: paragraph above the options; None takes the summary.
        epilog: text below the options; its line breaks are kept.
        after_interrupt: end of the message after an interruption, with the remedy.
    """

    options: type[Settings]
    run: Callable[[Settings], int]
    summary: str
    description: str | None = None
    epilog: str | None = None
    after_interrupt: str = ""

    def add_to(self, commands: Any, name: str) -> None:
        """Add a parser of the command to ``commands``, the result of ``ArgumentParser.add_subparsers``."""
        parser = commands.add_parser(
            name,
            help=self.summary,
            description=self.description,
            epilog=self.epilog,
        )
        add_options(parser, self.options)

    def start(self, values: argparse.Namespace, other_words: list[str]) -> int:
        """Run the command with parsed words; returns the exit code."""
        return self.run(read_options(self.options, values, other_words))

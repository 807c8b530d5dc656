"""How a command joins the command line."""

import argparse
from typing import Any


def add_command(commands: Any, name: str, *, summary: str, description: str, epilog: str) -> argparse.ArgumentParser:
    """A parser for command ``name``, whose help keeps the line breaks of ``epilog``.

    Args:
        commands: what ``ArgumentParser.add_subparsers`` returned.
        summary: its line in the list of commands.
    """
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    return parser

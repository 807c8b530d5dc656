"""Command lines of the scripts: help from the docstring, numbers and files that are checked before any work."""

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Number = TypeVar("Number", int, float)


def script_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser that prints the docstring of a script as it is."""
    return argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


def add_timing(
    parser: argparse.ArgumentParser, *, seconds: float, rounds: int, of: str = "model and batch size"
) -> None:
    """Options --seconds and --rounds.

    Args:
        parser: gets them.
        seconds: default.
        rounds: default.
        of: what the seconds are of.
    """
    text = f"measured time of each {of} ({seconds:g})"
    parser.add_argument("--seconds", type=positive_number, default=seconds, help=text)
    parser.add_argument("--rounds", type=positive_integer, default=rounds, help=f"({rounds})")


def add_json(parser: argparse.ArgumentParser) -> None:
    """Option --json, for :func:`common.figures.write_json`."""
    parser.add_argument("--json", type=writable_file, metavar="FILE", help="file for the figures")


def positive_number(text: str) -> float:
    """A finite number above 0.

    Raises:
        ArgumentTypeError: it is none.
    """
    value = _converted(float, text, math.nan)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def positive_integer(text: str) -> int:
    """A whole number above 0.

    Raises:
        ArgumentTypeError: it is none.
    """
    value = _converted(int, text, 0)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return value


def writable_file(text: str) -> Path:
    """Where a file can be written.

    Raises:
        ArgumentTypeError: it cannot.
    """
    from mnserve.errors import OutputError
    from mnserve.files import check_writable

    try:
        check_writable(Path(text))
    except OutputError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return Path(text)


def _converted(kind: Callable[[str], Number], text: str, otherwise: Number) -> Number:
    try:
        return kind(text)
    except ValueError:
        return otherwise

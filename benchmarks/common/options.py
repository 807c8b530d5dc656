"""Command lines of the scripts: help from the docstring, numbers and files that are checked before any work."""

import argparse
import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

_HOUR_MS = 3_600_000
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
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


def whole_number(text: str) -> int:
    """A whole number, 0 or above.

    Raises:
        ArgumentTypeError: it is none.
    """
    value = _converted(int, text, -1)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 on")
    return value


def milliseconds(text: str) -> float:
    """A time from 0 to an hour, in milliseconds.

    Raises:
        ArgumentTypeError: it is none.
    """
    value = _converted(float, text, math.nan)
    if not 0 <= value <= _HOUR_MS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of milliseconds from 0 to {_HOUR_MS}")
    return value


def plain_name(text: str) -> str:
    """A name that is one folder's, in whatever folder it is made.

    Raises:
        ArgumentTypeError: it is none.
    """
    if _NAME.fullmatch(text) is None:
        raise argparse.ArgumentTypeError(
            f"{text[:64]!r} is not a name of up to 128 letters, digits, '_', '-' and '.' that begins with none of the "
            "last two"
        )
    return text


def existing_file(text: str) -> Path:
    """A file that is there.

    Raises:
        ArgumentTypeError: it is not.
    """
    if not os.path.isfile(text):
        raise argparse.ArgumentTypeError(f"there is no file {text}")
    return Path(text)


def writable_file(text: str) -> Path:
    """Where a file can be written.

    Raises:
        ArgumentTypeError: it cannot.
    """
    from mnserve.atomic_files import check_writable
    from mnserve.errors import OutputError

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

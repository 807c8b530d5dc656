"""Command lines of the scripts: help from the docstring, and checks of numbers and files before any work."""

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
    """Make a parser whose help is the docstring of a script."""
    return argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


def add_timing(
    parser: argparse.ArgumentParser, *, seconds: float, rounds: int, of: str = "model and batch size"
) -> None:
    """Add the options --seconds and --rounds.

    Args:
        parser: parser to extend.
        seconds: default of --seconds.
        rounds: default of --rounds.
        of: unit of the measurement, for the help text.
    """
    text = f"measured time of each {of} ({seconds:g})"
    parser.add_argument("--seconds", type=positive_number, default=seconds, help=text)
    parser.add_argument("--rounds", type=positive_integer, default=rounds, help=f"({rounds})")


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option --json, for :func:`common.figures.write_json`."""
    parser.add_argument("--json", type=writable_file, metavar="FILE", help="file for the figures")


def positive_number(text: str) -> float:
    """Read a finite number above 0.

    Raises:
        ArgumentTypeError: the text is no such number.
    """
    value = _converted(float, text, math.nan)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def positive_integer(text: str) -> int:
    """Read a whole number above 0.

    Raises:
        ArgumentTypeError: the text is no such number.
    """
    return _whole_number(text, 1, "above 0")


def whole_number(text: str) -> int:
    """Read a whole number, 0 or above.

    Raises:
        ArgumentTypeError: the text is no such number.
    """
    return _whole_number(text, 0, "from 0 on")


def milliseconds(text: str) -> float:
    """Read a time from 0 to an hour, in milliseconds.

    Raises:
        ArgumentTypeError: the text is no such time.
    """
    value = _converted(float, text, math.nan)
    if not 0 <= value <= _HOUR_MS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of milliseconds from 0 to {_HOUR_MS}")
    return value


def plain_name(text: str) -> str:
    """Read a name that is safe for a folder.

    Raises:
        ArgumentTypeError: the text is no such name.
    """
    if _NAME.fullmatch(text) is None:
        raise argparse.ArgumentTypeError(
            f"{text[:64]!r} is not a name of up to 128 letters, digits, '_', '-' and '.' that begins with none of the "
            "last two"
        )
    return text


def existing_file(text: str) -> Path:
    """Read the path of an existing file.

    Raises:
        ArgumentTypeError: there is no such file.
    """
    if not os.path.isfile(text):
        raise argparse.ArgumentTypeError(f"there is no file {text}")
    return Path(text)


def writable_file(text: str) -> Path:
    """Read the path of a file that can be written.

    Raises:
        ArgumentTypeError: no file can be written there.
    """
    from mnserve.atomic_files import check_writable
    from mnserve.errors import OutputError

    try:
        check_writable(Path(text))
    except OutputError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return Path(text)


def _whole_number(text: str, minimum: int, range_: str) -> int:
    value = _converted(int, text, minimum - 1)
    if value < minimum:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number {range_}")
    return value


def _converted(kind: Callable[[str], Number], text: str, otherwise: Number) -> Number:
    try:
        return kind(text)
    except ValueError:
        return otherwise

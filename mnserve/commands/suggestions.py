"""The nearest right option in messages about one that does not exist."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

_UNRECOGNIZED: Final = re.compile(r"unrecognized arguments: (\S+)", re.IGNORECASE)
_NOT_ACCEPTED: Final = re.compile(r"option '([^']*)' is not accepted", re.IGNORECASE)


def with_suggestion(message: str, options: Iterable[str], file: str | None) -> str:
    """Adds the option that is nearest to an unknown one.

    Args:
        message: Message of the parser.
        options: All options, with their dashes.
        file: File that options were read from; None for none.

    Returns:
        The message, with the name of the file where the option stands in it.
    """
    if (stray := _UNRECOGNIZED.match(message)) is not None:
        near = _nearest(stray.group(1).partition("=")[0], options)
        return message if near is None else f"{message}; did you mean {near}?"
    if file is not None and (stray := _NOT_ACCEPTED.match(message)) is not None:
        near = _nearest(f"--{stray.group(1)}", options)
        hint = "" if near is None else f"; did you mean {near.removeprefix('--').replace('-', '_')}?"
        return f"the file {file} given with --config has {stray.group(1)!r}, which is no option{hint}"
    return message


def _nearest(word: str, options: Iterable[str]) -> str | None:
    matches = get_close_matches(word.replace("_", "-").lower(), list(options), n=1, cutoff=0.75)
    return matches[0] if matches else None

"""Names in messages: lists that stay short, and characters that stay on one line."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Final

_LISTED: Final = 20
_SHORT: Final = 64
_UNPRINTABLE: Final = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode categories: control characters, marks that turn the direction of a line or are not seen, lone surrogates,
line and paragraph separators."""


def is_text(name: str) -> bool:
    """Whether a file name is UTF-8: bytes that are not come as lone surrogates, which no message can carry."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def listed(names: Sequence[str]) -> str:
    """Names for a message; of many only some, and how many more there are."""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"{', '.join(names[:_LISTED])}{more}" or "none"


def printable(text: str) -> str:
    """Text on one line of any stream: line breaks, control characters, marks of direction and bytes that are no text as
    escapes."""
    if text.isprintable():
        return text  # as nearly every line of a log is
    return "".join(
        character.encode("unicode_escape").decode("ascii")
        if unicodedata.category(character) in _UNPRINTABLE
        else character
        for character in text
    )


def shortened(text: str, most: int = _SHORT) -> str:
    """The first ``most`` characters of what a caller gave, with dots where there are more."""
    return text if len(text) <= most else f"{text[:most]}..."

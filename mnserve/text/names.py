"""Names in messages: short lists, and text that stays on one line."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

_LISTED: Final = 20
_MAX_LENGTH: Final = 64
_MAX_SENTENCE: Final = 400
_UNPRINTABLE: Final = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode categories: control characters, invisible and direction marks, lone surrogates, line and paragraph
separators."""


def is_text(name: str) -> bool:
    """Returns True for a file name in UTF-8. Other bytes arrive as lone surrogates, which no message can carry."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def listed(names: Sequence[str]) -> str:
    """Joins names for a message; of a long list the first ones and the number of the others."""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"{', '.join(names[:_LISTED])}{more}" or "none"


def printable(text: str) -> str:
    """Escapes line breaks, control characters, direction marks and lone surrogates, so that text stays on one line."""
    if text.isprintable():
        return text  # the usual case of a line of the log
    return "".join(
        character.encode("unicode_escape").decode("ascii")
        if unicodedata.category(character) in _UNPRINTABLE
        else character
        for character in text
    )


def printable_lines(text: str) -> str:
    """Escapes the same as :func:`printable`, except for line feeds and tabs."""
    return "".join(part if part in ("\n", "\t") else printable(part) for part in re.split("([\n\t])", text))


def shortened_within(text: str, limit: int = _MAX_SENTENCE) -> str:
    """Cuts the middle of text that has more than ``limit`` characters, with dots in its place."""
    return text if len(text) <= limit else f"{text[: limit // 2]} ... {text[-(limit // 2) :]}"


def shortened(text: str, limit: int = _MAX_LENGTH) -> str:
    """Cuts text to its first ``limit`` characters, with dots in place of the others."""
    return text if len(text) <= limit else f"{text[:limit]}..."

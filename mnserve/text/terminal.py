"""Text from outside on a terminal: no markup of rich, and no character that could steer the terminal."""

from __future__ import annotations

from rich.text import Text

from mnserve.text.names import printable, printable_lines


def plain(text: str) -> Text:
    """Makes text of one line for rich, which takes nothing in it as markup."""
    return Text(printable(text))


def plain_lines(text: str) -> Text:
    """Makes text of several lines for rich, which takes nothing in it as markup."""
    return Text(printable_lines(text))

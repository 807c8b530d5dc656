"""Markdown of model cards: names that come from users show as they are, and do nothing else.

The page is CommonMark with tables, as hubs render it.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from mntrain.terminal_text import printable

_MEANT: Final = re.compile(r"([\\`*_\[\]<|~$&@]|:(?=//))")
"""Characters that may begin markup, HTML, a formula, a link or an entity anywhere in a line."""
_AT_START: Final = re.compile(r"^(?:([-+#>=])|(\d+)([.)])(?=\s|$))")
"""Beginnings of list items, headings and quotations."""
_LONGEST = 120
_MOST_NAMES = 20


def escaped(text: object, longest: int = _LONGEST) -> str:
    """Return text in one line as Markdown that shows it: no markup, HTML or link in it works.

    Args:
        text: anything; line breaks and runs of spaces become one space.
        longest: characters that are kept.
    """
    line = printable(" ".join(str(text).split()))
    if len(line) > longest:
        line = line[: longest - 1] + "…"
    line = _MEANT.sub(r"\\\1", line).replace("www.", "www\\.")
    return _AT_START.sub(lambda match: f"\\{match[1]}" if match[1] else f"{match[2]}\\{match[3]}", line)


def names(values: Sequence[str], most: int = _MOST_NAMES) -> str:
    """Join names with commas; of a long list the first ones, and how many more there are."""
    shown = ", ".join(escaped(value, 60) for value in values[:most])
    return shown if len(values) <= most else f"{shown} and {len(values) - most:,} more"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> str:
    """Make a table; cells are Markdown already. The first ``words`` columns are of words, the others of figures."""
    lines = [head, ["---"] * words + ["---:"] * (len(head) - words), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def aligned(*commands: tuple[str, str]) -> str:
    """Make a block of shell commands, each with a comment beside it.

    Args:
        commands: command and comment; neither holds text of users.
    """
    width = max(len(command) for command, _ in commands)
    return "\n".join(["```sh", *(f"{command:<{width}}   # {comment}" for command, comment in commands), "```"])


def section(title: str, *parts: str) -> str:
    """Make a section of paragraphs, lists and tables; empty where all of them are."""
    filled = [part for part in parts if part]
    return "\n\n".join([f"## {title}", *filled]) if filled else ""

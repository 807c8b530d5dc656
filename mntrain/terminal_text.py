"""Text from outside on a terminal: no markup of rich, and no character that could steer the terminal.

``mnserve`` has its own module, since it may not import this package.
"""

import unicodedata
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.text import Text

_UNPRINTABLE: Final = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode categories: control characters, direction marks, lone surrogates, line and paragraph separators."""


def plain(text: str) -> "Text":
    """Make text for rich, which takes nothing in it as markup."""
    from rich.text import Text  # messages of the command line do without

    return Text(printable(text))


def printable(text: str) -> str:
    """Escape control characters, direction marks and lone surrogates; line feeds and tabs stay."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    if character in "\n\t" or unicodedata.category(character) not in _UNPRINTABLE:
        return character
    return character.encode("unicode_escape").decode("ascii")

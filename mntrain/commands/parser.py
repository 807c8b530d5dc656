"""Parser of fixed options that answers a wrong word with the nearest right one; ``mnexport`` uses it too."""

import argparse
import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, NoReturn

_INVALID_CHOICE = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)$")
_UNRECOGNIZED = "unrecognized arguments: "


class CommandParser(argparse.ArgumentParser):
    """Parser of options that are written in full."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **options)

    @property
    def options(self) -> list[str]:
        """All options with their dashes."""
        return list(self._option_string_actions)

    def error(self, message: str) -> NoReturn:
        """See :meth:`argparse.ArgumentParser.error`."""
        near = None
        if message.startswith(_UNRECOGNIZED):
            near = nearest_option(message.removeprefix(_UNRECOGNIZED).split()[0], self.options)
        elif (invalid := _INVALID_CHOICE.search(message)) is not None:
            word, choices = invalid.groups()
            near = next(iter(get_close_matches(word, [choice.strip("' ") for choice in choices.split(",")], n=1)), None)
        super().error(message if near is None else f"{message}; did you mean {near}?")


def nearest_option(word: str, options: Iterable[str]) -> str | None:
    """Return the option that ``word``, such as ``--ressume`` or ``--batch_size=5``, may mean; None for none."""
    matches = get_close_matches(word.partition("=")[0].replace("_", "-").lower(), list(options), n=1, cutoff=0.75)
    return matches[0] if matches else None

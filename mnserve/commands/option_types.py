"""Numbers given as options, in the environment or in a configuration file: read, or refused in a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from mnserve.errors import SettingsError
from mnserve.text.names import shortened
from mnserve.text.number_text import MOST_DIGITS

_NOUNS: Final = {int: "a whole number", float: "a number"}


@dataclass(frozen=True, kw_only=True, repr=False)
class Number:
    """Reads the value of an option.

    ``nan`` and ``inf`` are read where floats are: the settings know their limits, and say them.
    """

    kind: type[int] | type[float]
    """int or float."""
    option: str
    """Its name, such as ``--rows``, for the message."""
    meaning: str
    """What the option is, for the message."""

    def __repr__(self) -> str:
        """The type, as ``--help`` shows it."""
        return self.kind.__name__

    def __call__(self, value: Any) -> int | float:
        """The number that text of an option, or a value of a configuration file, stands for.

        Raises:
            SettingsError: it is no such number.
        """
        noun = _NOUNS[self.kind]
        try:
            return self._read(value)
        except (TypeError, ValueError, OverflowError):
            meaning = f" ({self.meaning.rstrip('.')})" if self.meaning else ""
            raise SettingsError(
                f"{self.option} is {shortened(str(value))!r}; it must be {noun} of at most {MOST_DIGITS} "
                f"characters{meaning}"
            ) from None

    def _read(self, value: Any) -> int | float:
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise TypeError
        if isinstance(value, str) and len(value) > MOST_DIGITS:
            raise ValueError
        found = self.kind(value)
        if self.kind is int and isinstance(value, float) and found != value:
            raise ValueError  # 1.5 in a file
        return found

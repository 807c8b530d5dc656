"""Number types of options: values are read, or refused in one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from mnserve.errors import SettingsError
from mnserve.text.names import shortened
from mnserve.text.number_text import MAX_DIGITS

_NOUNS: Final = {int: "a whole number", float: "a number"}


@dataclass(frozen=True, kw_only=True, repr=False)
class Number:
    """Type of a number on the command line, in the environment or in a configuration file.

    ``nan`` and ``inf`` are accepted as floats. The settings classes check ranges and name them in their messages.
    """

    kind: type[int] | type[float]
    """int or float."""
    option: str
    """Name of the option, such as ``--rows``, for the message."""
    meaning: str
    """Meaning of the option, for the message."""

    def __repr__(self) -> str:
        """Returns the name of the type, as ``--help`` shows it."""
        return self.kind.__name__

    def __call__(self, value: Any) -> int | float:
        """Converts the text of an option, or a value of a configuration file, to a number.

        Raises:
            SettingsError: The value is no such number.
        """
        noun = _NOUNS[self.kind]
        try:
            return self._read(value)
        except (TypeError, ValueError, OverflowError):
            meaning = f" ({self.meaning.rstrip('.')})" if self.meaning else ""
            raise SettingsError(
                f"{self.option} is {shortened(str(value))!r}; it must be {noun} of at most {MAX_DIGITS} "
                f"characters{meaning}"
            ) from None

    def _read(self, value: Any) -> int | float:
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise TypeError
        if isinstance(value, str) and len(value) > MAX_DIGITS:
            raise ValueError
        number = self.kind(value)
        if self.kind is int and isinstance(value, float) and number != value:
            raise ValueError  # 1.5 in a file
        return number

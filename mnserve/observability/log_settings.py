"""Log settings of callers: Triton's LogSettings on the levels of Python's logging.

Levels build on each other: a log of information has warnings and errors, too.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, TypeAlias

from mnserve.errors import InvalidRequestError, UnsupportedError

LogValue: TypeAlias = bool | int | str

_VERBOSE: Final = "log_verbose_level"
_STEPS: Final = (
    (_VERBOSE, logging.DEBUG),
    ("log_info", logging.INFO),
    ("log_warning", logging.WARNING),
    ("log_error", logging.ERROR),
)
"""Settings and their levels, the least severe first."""
_FIXED: Final = ("log_file", "log_format")


class LogControl:
    """Reads and changes the log settings of this server.

    Args:
        style: Format of lines, text or json.
        logger: Logger whose level changes; None for that of the package.
    """

    def __init__(self, style: str = "text", logger: logging.Logger | None = None) -> None:
        self._style = style
        self._logger = logger or logging.getLogger("mnserve")

    def settings(self) -> dict[str, LogValue]:
        """Returns the current value of every setting."""
        level = self._logger.getEffectiveLevel()
        steps: dict[str, LogValue] = {name: level <= step_level for name, step_level in _STEPS}
        return {"log_file": "", **steps, _VERBOSE: int(level <= logging.DEBUG), "log_format": self._style}

    def change(self, changes: Mapping[str, LogValue]) -> None:
        """Changes the named settings; levels without a name follow where they have to.

        Raises:
            InvalidRequestError: A setting is unknown, a value has another type, or levels exclude each other.
            UnsupportedError: A setting cannot be changed while the server runs.
        """
        settings = self.settings()
        for name, value in changes.items():
            _check(name, value, settings)
        on = [index for index, (name, _) in enumerate(_STEPS) if changes.get(name)]
        off = [index for index, (name, _) in enumerate(_STEPS) if name in changes and not changes[name]]
        first, last = max(off, default=-1) + 1, min(on, default=len(_STEPS))
        if first > last:
            raise InvalidRequestError(
                f"{_STEPS[last][0]} is on and {_STEPS[first - 1][0]} off, but levels build on each other; switch the "
                "second on, or the first off"
            )
        current = next((index for index, (name, _) in enumerate(_STEPS) if settings[name]), len(_STEPS))
        levels = [*(level for _, level in _STEPS), logging.CRITICAL]
        self._logger.setLevel(levels[min(max(current, first), last)])


def _check(name: str, value: LogValue, settings: Mapping[str, LogValue]) -> None:
    if name not in settings:
        raise InvalidRequestError(f"there is no log setting '{name[:64]}'; there are {', '.join(settings)}")
    if type(value) is not type(settings[name]):
        kinds = {bool: "bool_param", int: "uint32_param", str: "string_param"}
        raise InvalidRequestError(
            f"the log setting {name} comes as {kinds[type(value)]}, expected {kinds[type(settings[name])]}"
        )
    if name in _FIXED and value != settings[name]:
        raise UnsupportedError(
            f"{name} stays '{settings[name]}' while the server runs; start it with another --log-format, or send its "
            "standard error elsewhere"
        )

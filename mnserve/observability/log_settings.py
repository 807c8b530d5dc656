"""How much is logged, as callers see and change it: Triton's LogSettings on the levels of Python's logging.

Levels build on each other: where information is logged, warnings and errors are, too.
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
"""From the least severe on."""
_FIXED: Final = ("log_file", "log_format")


class LogControl:
    """The log of this server.

    Args:
        style: How lines look, text or json.
        logger: Whose level is changed.
    """

    def __init__(self, style: str = "text", logger: logging.Logger | None = None) -> None:
        self._style = style
        self._logger = logger or logging.getLogger("mnserve")

    def settings(self) -> dict[str, LogValue]:
        """Every setting as it is now."""
        level = self._logger.getEffectiveLevel()
        steps: dict[str, LogValue] = {name: level <= least for name, least in _STEPS}
        return {"log_file": "", **steps, _VERBOSE: int(level <= logging.DEBUG), "log_format": self._style}

    def change(self, wanted: Mapping[str, LogValue]) -> None:
        """Changes what is named; levels that are not named follow where they have to.

        Raises:
            InvalidRequestError: No such setting, a value of another type, or levels that exclude each other.
            UnsupportedError: What cannot be changed while the server runs.
        """
        known = self.settings()
        for name, value in wanted.items():
            _check(name, value, known)
        on = [place for place, (name, _) in enumerate(_STEPS) if wanted.get(name)]
        off = [place for place, (name, _) in enumerate(_STEPS) if name in wanted and not wanted[name]]
        first, last = max(off, default=-1) + 1, min(on, default=len(_STEPS))
        if first > last:
            raise InvalidRequestError(
                f"{_STEPS[last][0]} is on and {_STEPS[first - 1][0]} off, but levels build on each other; switch the "
                "second on, or the first off"
            )
        now = next((place for place, (name, _) in enumerate(_STEPS) if known[name]), len(_STEPS))
        levels = [*(level for _, level in _STEPS), logging.CRITICAL]
        self._logger.setLevel(levels[min(max(now, first), last)])


def _check(name: str, value: LogValue, known: Mapping[str, LogValue]) -> None:
    if name not in known:
        raise InvalidRequestError(f"there is no log setting '{name[:64]}'; there are {', '.join(known)}")
    if type(value) is not type(known[name]):
        kinds = {bool: "bool_param", int: "uint32_param", str: "string_param"}
        raise InvalidRequestError(
            f"the log setting {name} comes as {kinds[type(value)]}, expected {kinds[type(known[name])]}"
        )
    if name in _FIXED and value != known[name]:
        raise UnsupportedError(
            f"{name} stays '{known[name]}' while the server runs; start it with another --log-format, or send its "
            "standard error elsewhere"
        )

"""Log settings of callers: Triton's LogSettings on the levels of Python's logging.

Levels build on each other: a log of information has warnings and errors, too.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from mnserve.errors import InvalidRequestError, UnsupportedError
from mnserve.observability.logs import TextFormatter

LogValue: TypeAlias = bool | int | str

_VERBOSE: Final = "log_verbose_level"
_STEPS: Final = (
    (_VERBOSE, logging.DEBUG),
    ("log_info", logging.INFO),
    ("log_warning", logging.WARNING),
    ("log_error", logging.ERROR),
)
"""Settings and their levels, the least severe first."""
_FILE: Final = "log_file"
_FORMAT: Final = "log_format"
_DEFAULT: Final = "default"
_ISO8601: Final = "ISO8601"
"""Triton's formats. They differ in the time of a line; JSON has that of ISO 8601 in any case."""


class LogControl:
    """Reads and changes the log settings of this server.

    Args:
        style: Format of lines, text or json.
        logger: Logger whose level changes; None for that of the package.
        handlers: Handlers whose lines of text change their times; None for those of the root logger.
    """

    def __init__(
        self,
        style: str = "text",
        logger: logging.Logger | None = None,
        handlers: Sequence[logging.Handler] | None = None,
    ) -> None:
        self._style = style
        self._logger = logger or logging.getLogger("mnserve")
        self._handlers = logging.getLogger().handlers if handlers is None else handlers
        self._format = _DEFAULT if style == "text" else style

    def settings(self) -> dict[str, LogValue]:
        """Returns the current value of every setting."""
        level = self._logger.getEffectiveLevel()
        steps: dict[str, LogValue] = {name: level <= step_level for name, step_level in _STEPS}
        return {_FILE: "", **steps, _VERBOSE: int(level <= logging.DEBUG), _FORMAT: self._format}

    def change(self, changes: Mapping[str, LogValue]) -> None:
        """Changes the named settings; levels without a name follow where they have to.

        Raises:
            InvalidRequestError: A setting is unknown, a value has another type, or levels exclude each other.
            UnsupportedError: A setting cannot be changed while the server runs.
        """
        settings = self.settings()
        for name, value in changes.items():
            self._check(name, value, settings)
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
        if _FORMAT in changes:
            self._change_format(changes[_FORMAT])

    def _change_format(self, value: LogValue) -> None:
        """Changes the times of lines of text; lines of JSON stay."""
        if self._style == "text":
            self._format = _ISO8601 if value == _ISO8601 else _DEFAULT
            for handler in self._handlers:
                if isinstance(handler.formatter, TextFormatter):
                    handler.formatter.iso8601 = value == _ISO8601

    def _check(self, name: str, value: LogValue, settings: Mapping[str, LogValue]) -> None:
        if name not in settings:
            raise InvalidRequestError(f"there is no log setting '{name[:64]}'; there are {', '.join(settings)}")
        if type(value) is not type(settings[name]):
            kinds = {bool: "bool_param", int: "uint32_param", str: "string_param"}
            raise InvalidRequestError(
                f"the log setting {name} comes as {kinds[type(value)]}, expected {kinds[type(settings[name])]}"
            )
        if name == _FILE and value:
            raise UnsupportedError(
                f"{_FILE} stays '' while the server runs; send the server's standard error elsewhere when it is started"
            )
        if name == _FORMAT and value not in (_DEFAULT, _ISO8601, self._style):
            raise InvalidRequestError(
                f"{_FORMAT} is '{str(value)[:64]}', expected {_DEFAULT} or {_ISO8601}; lines of JSON come with "
                "--log-format json when the server is started"
            )

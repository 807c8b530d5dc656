"""Set-up of logging for the command line: text or JSON lines on standard error."""

from __future__ import annotations

import contextvars
import json
import logging
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeAlias

from mnserve.text.names import printable, printable_lines

if TYPE_CHECKING:
    from types import TracebackType

_ExceptionInfo: TypeAlias = "tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]"

REQUEST_ID: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="")
"""Id of the current request from its caller; empty without an id."""

_ID_LENGTH: Final = 128
_OF_CALLERS: Final = ("python_multipart", "uvicorn")
"""Libraries that warn of what callers send, who are told; many callers would fill the log."""


def _request_id() -> str:
    return printable(REQUEST_ID.get()[:_ID_LENGTH])


def _iso8601(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


class _Formatter(logging.Formatter):
    """Escapes what stands in tracebacks, line by line."""

    def formatException(self, ei: _ExceptionInfo) -> str:
        """See :meth:`logging.Formatter.formatException`."""
        return printable_lines(super().formatException(ei))


class TextFormatter(_Formatter):
    """Formats a record as one line, with the id of the request if there is one."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
        self.iso8601 = False
        """Write times as ISO 8601 in UTC, and not as the machine's own."""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        """See :meth:`logging.Formatter.formatTime`."""
        return _iso8601(record) if self.iso8601 else super().formatTime(record, datefmt)

    def formatMessage(self, record: logging.LogRecord) -> str:
        """See :meth:`logging.Formatter.formatMessage`."""
        text, request_id = printable(super().formatMessage(record)), _request_id()
        return f"{text} [request {request_id}]" if request_id else text


class JsonFormatter(_Formatter):
    """Formats a record as one JSON object on a line: time, level, logger, message, and any request id and traceback.

    Values have no character that could steer a terminal, so that a program may print them.
    """

    def format(self, record: logging.LogRecord) -> str:
        """See :meth:`logging.Formatter.format`."""
        entry = {
            "time": _iso8601(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": printable(record.getMessage()),
        }
        if request_id := _request_id():
            entry["request_id"] = request_id
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def configure(level: str, style: str) -> None:
    """Sends our log, and warnings of the libraries, to standard error.

    Args:
        level: Least severe level of our messages, such as ``info``.
        style: ``text`` or ``json``.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("mnserve").setLevel(level.upper())
    for library in _OF_CALLERS:
        logging.getLogger(library).setLevel(logging.ERROR)

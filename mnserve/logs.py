"""Set-up of logging for the command line: text or JSON lines on standard error."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

__all__ = ["JsonFormatter", "configure"]


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and the traceback where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """See :meth:`logging.Formatter.format`."""
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def configure(level: str, style: str) -> None:
    """Sends our log, and warnings of the libraries, to standard error.

    Args:
        level: Least severe level of ours, such as ``info``.
        style: ``text`` or ``json``.
    """
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    handler.setFormatter(JsonFormatter() if style == "json" else text)
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("mnserve").setLevel(level.upper())

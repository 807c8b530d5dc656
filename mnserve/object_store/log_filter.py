"""Filter of what libraries of stores log: a warning about a request may have a signed URL in it."""

from __future__ import annotations

import logging
import traceback
from typing import Final

from mnserve.object_store.redaction import Redactor

_OWN_HANDLERS: Final = ("", "huggingface_hub")
"""Loggers with handlers: the root's, and that of a library which does not hand its records on."""


class LogFilter(logging.Filter):
    """Removes credentials from the records of other loggers than ours, whose texts have none.

    Args:
        redactor: Knows the credentials.
    """

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor
        self._handlers = [handler for name in _OWN_HANDLERS for handler in logging.getLogger(name).handlers]
        for handler in self._handlers:
            handler.addFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """See :meth:`logging.Filter.filter`."""
        if not record.name.startswith("mnserve"):
            text = record.getMessage()
            if record.exc_info and record.exc_info[0] is not None:
                text += "\n" + "".join(traceback.format_exception(*record.exc_info))
            record.msg, record.args, record.exc_info, record.exc_text = self._redactor.text(text), (), None, None
        return True

    def close(self) -> None:
        """Takes the filter away."""
        for handler in self._handlers:
            handler.removeFilter(self)

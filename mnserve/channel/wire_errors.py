"""Errors that cross from one process to another, as JSON: the name of their class, their message and their fields."""

from __future__ import annotations

import json
import logging
import uuid
from typing import Any, Final

from mnserve import errors
from mnserve.errors import EngineProcessError, MnServeError, RateLimitedError
from mnserve.text.json_text import parse_json

_log = logging.getLogger(__name__)

_MAX_MESSAGE: Final = 8192
"""Characters of a message that travel; callers get fewer."""


def error_fields(error: BaseException) -> dict[str, Any]:
    """Describes an error in values of JSON.

    An error outside of ``mnserve.errors`` is a fault of ours, or of a library. It is logged here with its traceback,
    and what travels names its id in the log.
    """
    name = type(error).__name__
    if not isinstance(error, MnServeError) or getattr(errors, name, None) is not type(error):
        error_id = uuid.uuid4().hex[:12]
        _log.error("internal error %s in the engine process", error_id, exc_info=error)
        error = EngineProcessError(f"{name} in the engine process, whose log has the details under {error_id}")
        name = EngineProcessError.__name__
    fields: dict[str, Any] = {"error": name, "message": str(error)[:_MAX_MESSAGE]}
    if isinstance(error, RateLimitedError):
        fields["retry_ms"] = error.retry_ms
    return fields


def error_from_fields(fields: Any) -> MnServeError:
    """Makes the error that :func:`error_fields` has described; one that makes no sense becomes EngineProcessError."""
    if not isinstance(fields, dict):
        fields = {}
    kind = getattr(errors, str(fields.get("error")), None)
    message = str(fields.get("message", "an error without a message"))
    if not (isinstance(kind, type) and issubclass(kind, MnServeError)):
        return EngineProcessError(message)
    if issubclass(kind, RateLimitedError):
        retry_ms = fields.get("retry_ms")
        return kind(message, retry_ms if isinstance(retry_ms, int) else 0)
    return kind(message)


def pack_error(error: BaseException) -> bytes:
    """Writes an error as JSON."""
    return json.dumps(error_fields(error)).encode()


def unpack_error(text: bytes) -> MnServeError:
    """Reads an error from JSON."""
    try:
        fields = parse_json(text.decode())
    except ValueError:
        fields = {"message": "the engine process described an error in words that cannot be read"}
    return error_from_fields(fields)

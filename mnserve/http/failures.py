"""Failures as answers of HTTP: a status, one sentence, and the time of the next attempt.

Statuses are those that Triton has for the same faults, where it has one.
"""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import Final

import grpc

from mnserve.failing import Refusal, refusal
from mnserve.http.answers import Headers, HttpAnswer, json_answer
from mnserve.http.errors import CallFailedError, SlowBodyError

_BY_CODE: Final = MappingProxyType(
    {
        grpc.StatusCode.INVALID_ARGUMENT: 400,
        grpc.StatusCode.UNAUTHENTICATED: 401,
        grpc.StatusCode.PERMISSION_DENIED: 403,
        grpc.StatusCode.NOT_FOUND: 404,
        grpc.StatusCode.ALREADY_EXISTS: 409,
        grpc.StatusCode.UNIMPLEMENTED: 501,
        grpc.StatusCode.UNAVAILABLE: 503,
        grpc.StatusCode.DEADLINE_EXCEEDED: 504,
    }
)
_TOO_MANY: Final = 429
_TOO_LARGE: Final = 413
_TOO_SLOW: Final = 408


def failure(error: Exception) -> HttpAnswer:
    """Returns the answer of a failed call."""
    if isinstance(error, CallFailedError):
        return _answer(error.status)
    if isinstance(error, SlowBodyError):
        return json_answer({"error": str(error)}, _TOO_SLOW)
    return _answer(refusal(error))


def _answer(status: Refusal) -> HttpAnswer:
    headers: Headers = ()
    if status.pushback_ms is not None:
        headers = ((b"retry-after", b"%d" % max(1, math.ceil(status.pushback_ms / 1000))),)
    elif status.code is grpc.StatusCode.UNAUTHENTICATED:
        headers = ((b"www-authenticate", b"Bearer"),)
    return json_answer({"error": status.details}, http_status(status), headers)


def http_status(status: Refusal) -> int:
    """Returns the status of HTTP for a status of gRPC."""
    if status.code is grpc.StatusCode.RESOURCE_EXHAUSTED:  # a rate, which has a time to wait, or a size
        return _TOO_LARGE if status.pushback_ms is None else _TOO_MANY
    return _BY_CODE.get(status.code, 500)

"""Table of the gRPC status codes of errors."""

from __future__ import annotations

from typing import Final

import grpc

from mnserve.errors import (
    AnswerTooLargeError,
    DeadlineExceededError,
    EngineInputError,
    EngineLostError,
    InvalidRequestError,
    LoadFailedError,
    MessageTooLargeError,
    MnServeError,
    ModelNotReadyError,
    PermissionDeniedError,
    QueueFullError,
    QueueTimeoutError,
    RateLimitedError,
    RegionExistsError,
    RepositoryNotFoundError,
    StaleEndpointError,
    StoppingError,
    StoreUnreachableError,
    TooManyCallsError,
    UnauthenticatedError,
    UnavailableError,
    UnknownModelError,
    UnknownRegionError,
    UnsupportedError,
)

PUSHBACK_KEY: Final = "grpc-retry-pushback-ms"
"""Key of the trailing metadata with the delay of the next attempt, which retry policies of clients read."""

_CODES: Final[tuple[tuple[type[MnServeError], grpc.StatusCode], ...]] = (
    (InvalidRequestError, grpc.StatusCode.INVALID_ARGUMENT),
    (EngineInputError, grpc.StatusCode.INVALID_ARGUMENT),
    (UnauthenticatedError, grpc.StatusCode.UNAUTHENTICATED),
    (PermissionDeniedError, grpc.StatusCode.PERMISSION_DENIED),
    (UnknownModelError, grpc.StatusCode.NOT_FOUND),
    (UnknownRegionError, grpc.StatusCode.NOT_FOUND),
    (RegionExistsError, grpc.StatusCode.ALREADY_EXISTS),
    (LoadFailedError, grpc.StatusCode.INVALID_ARGUMENT),
    (UnsupportedError, grpc.StatusCode.UNIMPLEMENTED),
    (UnavailableError, grpc.StatusCode.UNAVAILABLE),
    (RepositoryNotFoundError, grpc.StatusCode.UNAVAILABLE),  # a drive that went away after the start
    (StoreUnreachableError, grpc.StatusCode.UNAVAILABLE),
    (DeadlineExceededError, grpc.StatusCode.DEADLINE_EXCEEDED),
    (RateLimitedError, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (MessageTooLargeError, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (AnswerTooLargeError, grpc.StatusCode.RESOURCE_EXHAUSTED),
)
_PUSHBACK_MS: Final[tuple[tuple[type[MnServeError], int], ...]] = (
    (QueueFullError, 100),
    (QueueTimeoutError, 100),
    (TooManyCallsError, 100),
    (StoppingError, 1000),
    (ModelNotReadyError, 1000),
    (EngineLostError, 1000),
    (StaleEndpointError, 100),
    (RepositoryNotFoundError, 1000),
    (StoreUnreachableError, 1000),
)


def status_code(error: BaseException) -> grpc.StatusCode:
    """Returns the status code of an error; INTERNAL for errors outside the table."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), grpc.StatusCode.INTERNAL)


def pushback_ms(error: BaseException) -> int | None:
    """Returns the milliseconds until a client may try again, or None where another attempt cannot help."""
    if isinstance(error, RateLimitedError):
        return error.retry_ms
    return next((delay for kind, delay in _PUSHBACK_MS if isinstance(error, kind)), None)


def failure_reason(error: BaseException) -> str:
    """Returns the counter of a failure, one of ``FAILURE_REASONS`` of models.statistics except CANCELED."""
    code = status_code(error)
    rejected = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
    if code in rejected or isinstance(error, RateLimitedError):
        return "REJECTED"
    return "BACKEND" if code is grpc.StatusCode.INTERNAL else "OTHER"

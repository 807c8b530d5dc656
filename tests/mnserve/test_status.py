"""Every error has a status."""

from __future__ import annotations

import re

import pytest
from grpc import StatusCode

from mnserve import errors
from mnserve.models.statistics import FAILURE_REASONS
from mnserve.status import failure_reason, pushback_ms, status_code


def test_the_tree_of_errors_is_the_one_that_is_drawn() -> None:
    public = [name for name in vars(errors) if name.endswith("Error")]
    drawn = re.findall(r"\w+Error\b", (errors.__doc__ or "").split("::", 1)[1])
    assert sorted(drawn) == sorted(public)
    for name in public:
        assert issubclass(getattr(errors, name), errors.MnServeError)


@pytest.mark.parametrize(
    ("error", "code", "reason", "retry"),
    [
        (errors.InvalidRequestError(), StatusCode.INVALID_ARGUMENT, "OTHER", False),
        (errors.EngineInputError(), StatusCode.INVALID_ARGUMENT, "OTHER", False),
        (errors.UnauthenticatedError(), StatusCode.UNAUTHENTICATED, "OTHER", False),
        (errors.PermissionDeniedError(), StatusCode.PERMISSION_DENIED, "OTHER", False),
        (errors.UnknownModelError(), StatusCode.NOT_FOUND, "OTHER", False),
        (errors.UnsupportedError(), StatusCode.UNIMPLEMENTED, "OTHER", False),
        (errors.ModelNotReadyError(), StatusCode.UNAVAILABLE, "REJECTED", True),
        (errors.RepositoryNotFoundError(), StatusCode.UNAVAILABLE, "REJECTED", True),
        (errors.QueueFullError(), StatusCode.UNAVAILABLE, "REJECTED", True),
        (errors.QueueTimeoutError(), StatusCode.UNAVAILABLE, "REJECTED", True),
        (errors.StoppingError(), StatusCode.UNAVAILABLE, "REJECTED", True),
        (errors.StaleEndpointError(), StatusCode.UNAVAILABLE, "REJECTED", True),
        (errors.EngineLostError(), StatusCode.UNAVAILABLE, "REJECTED", True),
        (errors.EngineProcessError(), StatusCode.INTERNAL, "BACKEND", False),
        (errors.DeadlineExceededError(), StatusCode.DEADLINE_EXCEEDED, "REJECTED", False),
        (errors.RateLimitedError("", 7), StatusCode.RESOURCE_EXHAUSTED, "REJECTED", True),
        (errors.AnswerTooLargeError(), StatusCode.RESOURCE_EXHAUSTED, "OTHER", False),
        (errors.EngineRunError(), StatusCode.INTERNAL, "BACKEND", False),
        (ZeroDivisionError(), StatusCode.INTERNAL, "BACKEND", False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_each_error_has_its_status_reason_and_pushback(
    error: Exception, code: StatusCode, reason: str, retry: bool
) -> None:
    assert status_code(error) is code
    assert failure_reason(error) == reason
    assert reason in FAILURE_REASONS
    assert (pushback_ms(error) is not None) is retry

"""How urgent a request is: its deadline, and the parameters ``priority`` and ``timeout``."""

from __future__ import annotations

from typing import NamedTuple

from mnserve.batching.queue_policy import QueueRules
from mnserve.errors import InvalidRequestError
from mnserve.protocol import service_pb2 as pb

__all__ = ["RequestLimits", "request_limits"]


class RequestLimits(NamedTuple):
    """How urgent a request is.

    Attributes:
        level: Its priority level.
        seconds: Seconds until its caller's time is up; None where it never is.
        wait: Seconds that it asks to wait for its turn at most; 0 where it does not ask.
    """

    level: int
    seconds: float | None = None
    wait: float = 0.0


def request_limits(request: pb.ModelInferRequest, rules: QueueRules, remaining: float | None) -> RequestLimits:
    """How urgent a request is by gRPC's deadline and its own parameters.

    ``timeout`` is a time in the queue where the policy of its level has one, and counts there if it may be overridden.
    Elsewhere it is a time until the answer, like gRPC's deadline, and the sooner of both counts.

    Args:
        request: The message.
        rules: Queue rules of the model.
        remaining: Seconds until gRPC's deadline; None where there is none.

    Raises:
        InvalidRequestError: A parameter has no sense.
    """
    if not request.parameters:
        return RequestLimits(level=rules.default_level, seconds=remaining)
    level = _level(request, rules)
    timeout = (_integer(request, "timeout", "0 (none) or more microseconds") or 0) / 1e6
    if rules.policy(level).limits_waiting:
        return RequestLimits(level=level, seconds=remaining, wait=timeout)
    limits = [seconds for seconds in (remaining, timeout or None) if seconds is not None]
    return RequestLimits(level=level, seconds=min(limits, default=None))


def _level(request: pb.ModelInferRequest, rules: QueueRules) -> int:
    if not rules.levels:
        return 0
    level = _integer(request, "priority", f"0 (the default) to {rules.levels}") or rules.default_level
    if level > rules.levels:
        raise InvalidRequestError(f"parameter 'priority' is {level}, expected 0 (the default) to {rules.levels}")
    return level


def _integer(request: pb.ModelInferRequest, name: str, expected: str) -> int | None:
    """A parameter, or None where the request does not have it."""
    if name not in request.parameters:
        return None
    parameter = request.parameters[name]
    kind = parameter.WhichOneof("parameter_choice")
    if kind not in ("int64_param", "uint64_param"):
        raise InvalidRequestError(f"parameter '{name}' comes as {kind}, expected int64_param or uint64_param")
    value: int = getattr(parameter, kind)
    if value < 0:
        raise InvalidRequestError(f"parameter '{name}' is {value}, expected {expected}")
    return value

"""Limits of one request: its priority and its times, from the message and gRPC's deadline to the timers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Self

from mnserve.batching.queue_policy import QueueRules
from mnserve.batching.request_queue import RequestQueue
from mnserve.errors import DeadlineExceededError, InvalidRequestError, QueueTimeoutError
from mnserve.execution.request import WaitingRequest
from mnserve.protocol import service_pb2 as pb


class RequestLimits(NamedTuple):
    """Priority and times of a request, with the policy of its priority level applied.

    Attributes:
        level: Priority level.
        deadline: Time at which the caller's time is up, on the event loop's clock; None for no limit.
        max_wait: Seconds that the request may wait in the queue; 0 for no limit.
        delay_late: Put the request behind the others of its level after that time, instead of refusing it.
    """

    level: int = 0
    deadline: float | None = None
    max_wait: float = 0.0
    delay_late: bool = False

    @classmethod
    def under(
        cls, rules: QueueRules, level: int | None = None, *, deadline: float | None = None, asked_wait: float = 0.0
    ) -> Self:
        """Applies the policy of a priority level.

        Args:
            rules: Queue rules of the model.
            level: Priority level; None is the default one.
            deadline: Time at which the caller's time is up, on the event loop's clock.
            asked_wait: Seconds that the request asks to wait at most; 0 where it does not ask.
        """
        level = rules.default_level if level is None else level
        policy = rules.policy(level)
        return cls(level, deadline, policy.max_wait(asked_wait), policy.delay_late)

    @property
    def refuses_late(self) -> bool:
        """True if the request is refused once it has waited for too long."""
        return self.max_wait > 0 and not self.delay_late

    def start_timers(
        self, request: WaitingRequest, queue: RequestQueue, end: Callable[[WaitingRequest, Exception], None]
    ) -> None:
        """Starts the timers of a waiting request, where it has limits.

        Args:
            request: The request.
            queue: Queue that it waits in.
            end: Takes a request out of the queue, and ends it with an error.
        """
        loop = asyncio.get_running_loop()
        timers: list[asyncio.TimerHandle] = []
        if self.deadline is not None:
            timers.append(loop.call_at(self.deadline, _expire, request, queue.name, end))
        if self.max_wait:
            if self.delay_late:
                timers.append(loop.call_later(self.max_wait, _postpone, request, queue))
            else:
                timers.append(loop.call_later(self.max_wait, _refuse, request, queue, end))
        request.timers = timers


def request_limits(
    request: pb.ModelInferRequest, rules: QueueRules, *, now: float, remaining: float | None
) -> RequestLimits:
    """Reads the limits of a request from gRPC's deadline and the parameters ``priority`` and ``timeout``.

    ``timeout`` is a time in the queue where the policy of its level has one, and counts there if it may be overridden.
    Elsewhere it is a time until the answer, like gRPC's deadline, and the sooner of both counts.

    Args:
        request: The message.
        rules: Queue rules of the model.
        now: Time on the event loop's clock.
        remaining: Seconds until gRPC's deadline; None where there is none.

    Raises:
        InvalidRequestError: A parameter has no sense.
    """
    if not request.parameters:
        return default_limits(rules, now=now, remaining=remaining)
    deadline = None if remaining is None else now + remaining
    level = _level(request, rules)
    timeout = (_integer(request, "timeout", "0 (none) or more microseconds") or 0) / 1e6
    if rules.policy(level).limits_waiting:
        return RequestLimits.under(rules, level, deadline=deadline, asked_wait=timeout)
    if timeout:
        deadline = now + timeout if deadline is None else min(deadline, now + timeout)
    return RequestLimits.under(rules, level, deadline=deadline)


def default_limits(rules: QueueRules, *, now: float, remaining: float | None) -> RequestLimits:
    """Returns the limits of a request without parameters.

    Args:
        rules: Queue rules of the model.
        now: Time on the event loop's clock.
        remaining: Seconds until gRPC's deadline; None where there is none.
    """
    policy = rules.policy_by_default
    deadline = None if remaining is None else now + remaining
    return RequestLimits(rules.default_level, deadline, policy.timeout, policy.delay_late)


def _level(request: pb.ModelInferRequest, rules: QueueRules) -> int:
    if not rules.levels:
        return 0
    level = _integer(request, "priority", f"0 (the default) to {rules.levels}") or rules.default_level
    if level > rules.levels:
        raise InvalidRequestError(f"parameter 'priority' is {level}, expected 0 (the default) to {rules.levels}")
    return level


def _integer(request: pb.ModelInferRequest, name: str, expected: str) -> int | None:
    """Reads a parameter; None where the request does not have it."""
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


def _expire(request: WaitingRequest, model: str, end: Callable[[WaitingRequest, Exception], None]) -> None:
    """Ends a request whose deadline has passed, in the queue or in a batch."""
    end(request, DeadlineExceededError(f"model '{model}': the deadline passed before the answer was there"))


def _refuse(request: WaitingRequest, queue: RequestQueue, end: Callable[[WaitingRequest, Exception], None]) -> None:
    """Ends a request that has waited for too long, if it waits still."""
    if request not in queue:
        return
    waited_ms = (queue.clock.ns() - request.admitted_ns) / 1e6
    end(
        request,
        QueueTimeoutError(
            f"model '{queue.name}': Request timeout expired: it waited in the queue for {waited_ms:.3g} ms, all "
            "that it may; try again later"
        ),
    )


def _postpone(request: WaitingRequest, queue: RequestQueue) -> None:
    """Puts a request that has waited for too long behind the others of its level, if it waits still."""
    if request in queue:
        queue.postpone(request)

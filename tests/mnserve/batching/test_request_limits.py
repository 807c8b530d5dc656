"""Limits of one request: its level, its deadline and its time in the queue."""

from __future__ import annotations

from typing import Any

import pytest

from mnserve.batching.queue_policy import QueuePolicy, QueueRules
from mnserve.batching.request_limits import RequestLimits, request_limits
from mnserve.errors import InvalidRequestError
from mnserve.protocol import service_pb2 as pb

NOW = 1000.0


@pytest.mark.parametrize(
    ("policy", "asked", "seconds"),
    [
        (QueuePolicy(), 0.0, 0.0),
        (QueuePolicy(), 1.0, 0.0),
        (QueuePolicy(timeout=2.0), 1.0, 2.0),
        (QueuePolicy(timeout=2.0, allow_override=True), 1.0, 1.0),
        (QueuePolicy(timeout=2.0, allow_override=True), 3.0, 2.0),
        (QueuePolicy(timeout=2.0, allow_override=True), 0.0, 2.0),
        (QueuePolicy(allow_override=True), 3.0, 3.0),
    ],
)
def test_a_request_may_ask_for_a_shorter_time_where_that_is_allowed(
    policy: QueuePolicy, asked: float, seconds: float
) -> None:
    assert policy.max_wait(asked) == seconds


def request(**parameters: Any) -> pb.ModelInferRequest:
    message = pb.ModelInferRequest()
    for name, value in parameters.items():
        kind = "string_param" if isinstance(value, str) else "int64_param" if name == "timeout" else "uint64_param"
        setattr(message.parameters[name], kind, value)
    return message


def read(message: pb.ModelInferRequest, rules: QueueRules, remaining: float | None = None) -> RequestLimits:
    return request_limits(message, rules, now=NOW, remaining=remaining)


PRIORITIES = QueueRules(levels=3, default_level=2)


def test_a_request_names_its_priority() -> None:
    assert read(request(), PRIORITIES).level == 2
    assert read(request(other=1), PRIORITIES).level == 2
    assert [read(request(priority=given), PRIORITIES).level for given in (0, 1, 3)] == [2, 1, 3]
    signed = request()
    signed.parameters["priority"].int64_param = 1
    assert read(signed, PRIORITIES).level == 1


def test_a_priority_beyond_the_levels_is_refused() -> None:
    """Such a priority may be meant to be low, and must not become the default in silence."""
    with pytest.raises(InvalidRequestError, match=r"'priority' is 4, expected 0 \(the default\) to 3"):
        read(request(priority=4), PRIORITIES)
    with pytest.raises(InvalidRequestError, match="comes as string_param"):
        read(request(priority="high"), PRIORITIES)
    negative = request()
    negative.parameters["priority"].int64_param = -1
    with pytest.raises(InvalidRequestError, match="'priority' is -1"):
        read(negative, PRIORITIES)


def test_without_levels_a_priority_means_nothing() -> None:
    assert read(request(priority=7), QueueRules()) == RequestLimits(level=0)
    assert read(request(priority="high"), QueueRules()) == RequestLimits(level=0)


@pytest.mark.parametrize(
    ("remaining", "timeout", "seconds"), [(10.0, 2_000_000, 2), (1.0, 2_000_000, 1), (None, 2_000_000, 2), (3.0, 0, 3)]
)
def test_without_a_policy_the_sooner_deadline_counts(remaining: float | None, timeout: int, seconds: float) -> None:
    assert read(request(timeout=timeout), QueueRules(), remaining) == RequestLimits(deadline=NOW + seconds)


@pytest.mark.parametrize(
    ("policy", "max_wait"), [(QueuePolicy(timeout=5.0), 5.0), (QueuePolicy(allow_override=True), 2.0)]
)
def test_with_a_policy_a_timeout_is_one_in_the_queue(policy: QueuePolicy, max_wait: float) -> None:
    rules = QueueRules(default_policy=policy)
    assert read(request(timeout=2_000_000), rules, 10.0) == RequestLimits(deadline=NOW + 10, max_wait=max_wait)
    assert read(request(timeout=2_000_000), rules) == RequestLimits(max_wait=max_wait)


def test_the_policy_of_the_level_decides_what_a_timeout_is() -> None:
    rules = QueueRules(levels=2, default_level=1, policies={2: QueuePolicy(timeout=5.0)})
    assert read(request(timeout=2_000_000), rules) == RequestLimits(level=1, deadline=NOW + 2)
    assert read(request(timeout=2_000_000, priority=2), rules) == RequestLimits(level=2, max_wait=5.0)


def test_timeouts_without_sense_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match=r"'timeout' is -5, expected 0 \(none\) or more microseconds"):
        read(request(timeout=-5), QueueRules())
    with pytest.raises(InvalidRequestError, match="comes as string_param"):
        read(request(timeout="soon"), QueueRules())


@pytest.mark.parametrize("policy", [QueuePolicy(), QueuePolicy(timeout=5.0, delay_late=True)])
def test_a_request_without_parameters_gets_the_limits_of_its_level(policy: QueuePolicy) -> None:
    rules = QueueRules(levels=2, default_level=2, default_policy=QueuePolicy(timeout=9.0), policies={2: policy})
    expected = RequestLimits(level=2, deadline=NOW + 3, max_wait=policy.timeout, delay_late=policy.delay_late)
    assert read(request(), rules, 3.0) == read(request(other=1), rules, 3.0) == expected
    assert RequestLimits.under(rules, deadline=NOW + 3) == expected

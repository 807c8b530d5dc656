"""Queue policies and priorities: read from the configuration, and what follows for one request."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import text_format

from mnserve.batching.from_config import batcher_options
from mnserve.batching.options import BatcherOptions
from mnserve.batching.queue_policy import QueuePolicy, QueueRules
from mnserve.batching.request_limits import RequestLimits, request_limits
from mnserve.errors import InvalidRequestError, ModelConfigError
from mnserve.protocol import service_pb2 as pb
from mnserve.protocol.model_config_pb2 import ModelConfig

LEVELS = "priority_levels: 3 default_priority_level: 2"


def options(text: str, max_batch_size: int = 8, max_queue_rows: int = 0) -> BatcherOptions:
    config = ModelConfig(name="m", max_batch_size=max_batch_size)
    text_format.Parse(f"dynamic_batching {{ {text} }}", config)
    return batcher_options(config, max_queue_rows=max_queue_rows, max_queue_bytes=1000)


def test_a_configuration_that_says_nothing_sets_no_policy() -> None:
    assert options("") == BatcherOptions(max_batch_size=8, max_queue_rows=512, max_queue_bytes=1000)
    assert options("", max_batch_size=0).max_queue_rows == 64


def test_everything_is_read() -> None:
    found = options(
        f"""{LEVELS} max_queue_delay_microseconds: 2500 preferred_batch_size: [4, 8]
        default_queue_policy {{ max_queue_size: 20 default_timeout_microseconds: 1500 allow_timeout_override: true }}
        priority_queue_policy {{ key: 3 value {{ timeout_action: DELAY default_timeout_microseconds: 500 }} }}"""
    )
    assert (found.max_delay, found.preferred_sizes) == (0.0025, (4, 8))
    assert (found.queue.levels, found.queue.default_level) == (3, 2)
    assert found.queue.policy(1) == QueuePolicy(max_requests=20, timeout=0.0015, allow_override=True)
    assert found.queue.policy(2) == found.queue.policy(1)
    assert found.queue.policy(3) == QueuePolicy(timeout=0.0005, delay_late=True)


def test_as_many_rows_may_wait_as_the_requests_that_may_can_have() -> None:
    assert options("default_queue_policy { max_queue_size: 1000 }").max_queue_rows == 8000
    assert options("default_queue_policy { max_queue_size: 10 }").max_queue_rows == 512
    assert options("default_queue_policy { max_queue_size: 1000 }", max_queue_rows=30).max_queue_rows == 30
    policy = "priority_queue_policy { key: 1 value { max_queue_size: 500 } }"
    assert options(f"{LEVELS} {policy} default_queue_policy {{ max_queue_size: 100 }}").max_queue_rows == 8 * 700


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("priority_levels: 3", "default_priority_level 0; it must be from 1 to 3"),
        ("priority_levels: 3 default_priority_level: 4", "default_priority_level 4"),
        ("default_priority_level: 1", "default_priority_level but no priority_levels"),
        ("priority_queue_policy { key: 1 value { } }", "priority_queue_policy but no priority_levels"),
        (f"{LEVELS} priority_queue_policy {{ key: 4 value {{ }} }}", "level 4; levels are from 1 to 3"),
        (f"{LEVELS} priority_queue_policy {{ key: 0 value {{ }} }}", "level 0; levels are from 1 to 3"),
        (f"{LEVELS} preserve_ordering: true", "preserve_ordering together with priorities"),
        ("preserve_ordering: true default_queue_policy { timeout_action: DELAY }", "timeout_action DELAY"),
        ("preferred_batch_size: [4, 9]", "preferred batch size is 9; it must be from 1 to max_batch_size 8"),
        ("preferred_batch_size: 0", "preferred batch size is 0"),
        (
            "max_queue_delay_microseconds: 3600000001",
            "delay_microseconds 3600000001; it may be up to 3600000000, an hour",
        ),
        (f"max_queue_delay_microseconds: {2**64 - 1}", f"delay_microseconds {2**64 - 1}; it may be up to 3600000000"),
    ],
)
def test_settings_that_contradict_each_other(text: str, words: str) -> None:
    with pytest.raises(ModelConfigError, match=f"model 'm': .*{words}"):
        options(text)


def test_requests_may_wait_an_hour_for_company() -> None:
    assert options("max_queue_delay_microseconds: 3600000000").max_delay == 3600


def test_the_order_can_be_kept_where_nothing_overtakes() -> None:
    found = options("preserve_ordering: true priority_levels: 1 default_priority_level: 1")
    assert (found.queue.levels, found.queue.default_level) == (1, 1)


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
    assert policy.longest_wait(asked) == seconds


def request(**parameters: Any) -> pb.ModelInferRequest:
    message = pb.ModelInferRequest()
    for name, value in parameters.items():
        kind = "string_param" if isinstance(value, str) else "int64_param" if name == "timeout" else "uint64_param"
        setattr(message.parameters[name], kind, value)
    return message


PRIORITIES = QueueRules(levels=3, default_level=2)


def test_a_request_names_its_priority() -> None:
    assert request_limits(request(), PRIORITIES, None).level == 2
    assert request_limits(request(other=1), PRIORITIES, None).level == 2
    assert [request_limits(request(priority=given), PRIORITIES, None).level for given in (0, 1, 3)] == [2, 1, 3]
    signed = request()
    signed.parameters["priority"].int64_param = 1
    assert request_limits(signed, PRIORITIES, None).level == 1


def test_a_priority_beyond_the_levels_is_refused() -> None:
    """It may be meant to be low, and must not become the default in silence."""
    with pytest.raises(InvalidRequestError, match=r"'priority' is 4, expected 0 \(the default\) to 3"):
        request_limits(request(priority=4), PRIORITIES, None)
    with pytest.raises(InvalidRequestError, match="comes as string_param"):
        request_limits(request(priority="high"), PRIORITIES, None)
    negative = request()
    negative.parameters["priority"].int64_param = -1
    with pytest.raises(InvalidRequestError, match="'priority' is -1"):
        request_limits(negative, PRIORITIES, None)


def test_without_levels_a_priority_means_nothing() -> None:
    assert request_limits(request(priority=7), QueueRules(), None) == RequestLimits(level=0)
    assert request_limits(request(priority="high"), QueueRules(), None) == RequestLimits(level=0)


@pytest.mark.parametrize(
    ("remaining", "timeout", "seconds"), [(10.0, 2_000_000, 2), (1.0, 2_000_000, 1), (None, 2_000_000, 2), (3.0, 0, 3)]
)
def test_without_a_policy_the_sooner_deadline_counts(remaining: float | None, timeout: int, seconds: float) -> None:
    assert request_limits(request(timeout=timeout), QueueRules(), remaining) == RequestLimits(level=0, seconds=seconds)


@pytest.mark.parametrize("policy", [QueuePolicy(timeout=5.0), QueuePolicy(allow_override=True)])
def test_with_a_policy_a_timeout_is_one_in_the_queue(policy: QueuePolicy) -> None:
    rules = QueueRules(default_policy=policy)
    assert request_limits(request(timeout=2_000_000), rules, 10.0) == RequestLimits(level=0, seconds=10.0, wait=2.0)
    assert request_limits(request(timeout=2_000_000), rules, None) == RequestLimits(level=0, wait=2.0)


def test_the_policy_of_the_level_decides_what_a_timeout_is() -> None:
    rules = QueueRules(levels=2, default_level=1, policies={2: QueuePolicy(timeout=5.0)})
    assert request_limits(request(timeout=2_000_000), rules, None) == RequestLimits(level=1, seconds=2.0)
    assert request_limits(request(timeout=2_000_000, priority=2), rules, None) == RequestLimits(level=2, wait=2.0)


def test_timeouts_without_sense_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match=r"'timeout' is -5, expected 0 \(none\) or more microseconds"):
        request_limits(request(timeout=-5), QueueRules(), None)
    with pytest.raises(InvalidRequestError, match="comes as string_param"):
        request_limits(request(timeout="soon"), QueueRules(), None)

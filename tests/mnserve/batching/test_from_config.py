"""Limits of a batcher as the model configuration gives them."""

from __future__ import annotations

import pytest
from google.protobuf import text_format

from mnserve.batching.from_config import batcher_options
from mnserve.batching.options import BatcherOptions
from mnserve.batching.queue_policy import QueuePolicy
from mnserve.errors import ModelConfigError
from mnserve.protocol.model_config_pb2 import ModelConfig

LEVELS = "priority_levels: 3 default_priority_level: 2"


def options(text: str, max_batch_size: int = 8, max_queue_rows: int = 0) -> BatcherOptions:
    config = ModelConfig(name="m", max_batch_size=max_batch_size)
    text_format.Parse(f"dynamic_batching {{ {text} }}", config)
    return batcher_options(config, max_queue_rows=max_queue_rows, max_queue_bytes=1000)


def test_a_configuration_that_says_nothing_sets_no_policy() -> None:
    assert options("") == BatcherOptions(max_batch_size=8, max_queue_rows=512, max_queue_bytes=1000, max_delay=None)
    assert options("", max_batch_size=0).max_queue_rows == 64


def test_every_setting_is_read() -> None:
    settings = options(
        f"""{LEVELS} max_queue_delay_microseconds: 2500 preferred_batch_size: [4, 8]
        default_queue_policy {{ max_queue_size: 20 default_timeout_microseconds: 1500 allow_timeout_override: true }}
        priority_queue_policy {{ key: 3 value {{ timeout_action: DELAY default_timeout_microseconds: 500 }} }}"""
    )
    assert (settings.max_delay, settings.preferred_sizes) == (0.0025, (4, 8))
    assert (settings.queue.levels, settings.queue.default_level) == (3, 2)
    assert settings.queue.policy(1) == QueuePolicy(max_requests=20, timeout=0.0015, allow_override=True)
    assert settings.queue.policy(2) == settings.queue.policy(1)
    assert settings.queue.policy(3) == QueuePolicy(timeout=0.0005, delay_late=True)


def test_max_queue_size_raises_the_limit_on_rows() -> None:
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
def test_settings_that_contradict_each_other_are_refused(text: str, words: str) -> None:
    with pytest.raises(ModelConfigError, match=f"model 'm': .*{words}"):
        options(text)


def test_a_queue_delay_may_last_an_hour() -> None:
    assert options("max_queue_delay_microseconds: 3600000000").max_delay == 3600


def test_preserve_ordering_is_accepted_where_nothing_overtakes() -> None:
    settings = options("preserve_ordering: true priority_levels: 1 default_priority_level: 1")
    assert (settings.queue.levels, settings.queue.default_level) == (1, 1)

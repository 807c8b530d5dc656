"""Candidates in config.pbtxt: what is read from it, what is set, and what stays."""

from __future__ import annotations

from dataclasses import replace

import pytest
from google.protobuf import text_format

from mnserve.engines import thread_count as engine_threads
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.tuning import configuration
from mnserve.tuning.candidate import Candidate
from mnserve.tuning.configuration import configured, current_candidate

CHOSEN = Candidate(max_batch_size=16, delay_us=500, instances=2, threads=3)
FULL = """
# the shop's model
name: "m"
max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: 4 }
dynamic_batching {
  preferred_batch_size: [4, 8]
  max_queue_delay_microseconds: 100
  priority_levels: 2
  default_priority_level: 1
  default_queue_policy { max_queue_size: 99 }
}
instance_group { count: 1 kind: KIND_CPU }
instance_group { count: 2 kind: KIND_CPU }
model_warmup { name: "one" batch_size: 1 inputs { key: "x" value { data_type: TYPE_FP32 dims: 4 zero_data: true } } }
parameters { key: "mn.family" value { string_value: "vanilla é" } }
parameters { key: "intra_op_thread_count" value { string_value: "7" } }
"""


def parse(text: str) -> ModelConfig:
    return text_format.Parse(text, ModelConfig())


@pytest.fixture(autouse=True)
def five_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (engine_threads, configuration):
        monkeypatch.setattr(module, "available_cpus", lambda: 5)


@pytest.mark.parametrize(
    ("text", "candidate"),
    [
        ("", Candidate(max_batch_size=0, delay_us=0, instances=1, threads=5)),
        (
            "max_batch_size: 4 instance_group { count: 2 }",
            Candidate(max_batch_size=4, delay_us=0, instances=2, threads=2),
        ),
        (FULL, Candidate(max_batch_size=8, delay_us=100, instances=3, threads=7)),
        (
            "dynamic_batching { max_queue_delay_microseconds: 9 }",  # nothing to delay
            Candidate(max_batch_size=0, delay_us=0, instances=1, threads=5),
        ),
    ],
)
def test_the_current_candidate_is_read_from_a_configuration(text: str, candidate: Candidate) -> None:
    assert current_candidate(parse(text)) == candidate


@pytest.mark.parametrize("text", ["", FULL, "max_batch_size: 4 instance_group { }"])
@pytest.mark.parametrize("candidate", [CHOSEN, replace(CHOSEN, delay_us=0, instances=1)])
def test_a_written_configuration_has_the_candidate(text: str, candidate: Candidate) -> None:
    assert current_candidate(parse(configured(text, candidate))) == candidate


def test_other_settings_of_the_configuration_are_kept() -> None:
    expected = parse(FULL)
    expected.max_batch_size = 16
    expected.dynamic_batching.max_queue_delay_microseconds = 500
    del expected.instance_group[:]
    expected.instance_group.add(count=2, kind="KIND_CPU")
    expected.parameters["intra_op_thread_count"].string_value = "3"
    assert parse(configured(FULL, CHOSEN)) == expected
    assert "vanilla é" in configured(FULL, CHOSEN)


def test_instance_groups_are_kept_if_their_number_is_unchanged() -> None:
    found = parse(configured(FULL, replace(CHOSEN, instances=3)))
    assert [group.count for group in found.instance_group] == [1, 2]
    assert not parse(configured("max_batch_size: 4", replace(CHOSEN, instances=1))).instance_group


def test_preferred_sizes_above_the_largest_batch_are_dropped() -> None:
    found = parse(configured(FULL, replace(CHOSEN, max_batch_size=4)))
    assert list(found.dynamic_batching.preferred_batch_size) == [4]


def test_a_new_configuration_has_only_the_chosen_settings() -> None:
    assert configured("", CHOSEN).split() == [
        "max_batch_size:",
        "16",
        "instance_group",
        "{",
        "count:",
        "2",
        "}",
        "dynamic_batching",
        "{",
        "max_queue_delay_microseconds:",
        "500",
        "}",
        "parameters",
        "{",
        "key:",
        '"intra_op_thread_count"',
        "value",
        "{",
        "string_value:",
        '"3"',
        "}",
        "}",
    ]


def test_a_model_without_batches_gets_none() -> None:
    found = parse(configured("", Candidate(max_batch_size=0, delay_us=0, instances=2, threads=1)))
    assert not found.HasField("dynamic_batching")
    assert found.max_batch_size == 0


def test_without_a_delay_requests_are_still_joined_elsewhere() -> None:
    """Triton joins no requests where dynamic_batching is missing."""
    assert parse(configured("", replace(CHOSEN, delay_us=0))).HasField("dynamic_batching")

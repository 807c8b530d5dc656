"""Search space of a tuning: limits of the model, the load, the CPUs and the options."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import text_format

from mnserve.errors import BenchError
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.tuning.candidate import Candidate
from mnserve.tuning.space import SearchLimits, search_space

LIMITS: dict[str, Any] = {
    "callers": 16,
    "rows": 1,
    "latency_ms": 20.0,
    "cpus": 8,
    "max_batch_size": 0,
    "allow_smaller_batches": False,
}
SIZES = 'parameters { key: "mn.allowed_batch_sizes" value { string_value: "[1, 6, 12, 48]" } }'


def batches(now: int, text: str = "", **limits: Any) -> tuple[int, ...]:
    config = text_format.Parse(f"max_batch_size: {now} {text}", ModelConfig(name="m"))
    current = Candidate(max_batch_size=now, delay_us=0, instances=1, threads=1)
    return search_space(config, current, SearchLimits(**(LIMITS | limits))).batches


@pytest.mark.parametrize(
    ("now", "limits", "expected"),
    [
        (8, {}, (8, 16)),
        (8, {"rows": 4}, (8, 16, 32, 64)),
        (12, {"callers": 20}, (12, 16, 32)),
        (32, {}, (32,)),
        (32, {"allow_smaller_batches": True}, (1, 2, 4, 8, 16, 32)),
        (32, {"allow_smaller_batches": True, "rows": 3}, (4, 8, 16, 32, 64)),
        (8, {"max_batch_size": 64}, (8, 16, 32, 64)),
        (32, {"max_batch_size": 4, "allow_smaller_batches": True}, (1, 2, 4, 32)),
        (1, {"callers": 1}, (1,)),
        (0, {}, (0,)),
        (0, {"max_batch_size": 64}, (0,)),
    ],
)
def test_batch_sizes_are_powers_of_two_that_the_callers_fill(
    now: int, limits: dict[str, Any], expected: tuple[int, ...]
) -> None:
    assert batches(now, **limits) == expected


def test_a_model_with_certain_sizes_is_tried_at_those_alone() -> None:
    assert batches(6, SIZES) == (6, 12)
    assert batches(6, SIZES, callers=64) == (6, 12, 48)
    assert batches(6, SIZES, allow_smaller_batches=True) == (1, 6, 12)
    assert batches(8, SIZES, callers=9, max_batch_size=9) == (8,)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"max_batch_size": 8}, r"--max-batch-size is 8, and model 'm' takes requests of up to 32 rows now; raise it"),
        ({"max_batch_size": 8, "rows": 9}, r"--max-batch-size is 8, less than the 9 rows of a request; raise it"),
    ],
)
def test_limits_that_leave_no_batch_size_are_refused(limits: dict[str, Any], words: str) -> None:
    with pytest.raises(BenchError, match=words):
        batches(32, **limits)


@pytest.mark.parametrize(
    ("limits", "max_batch_size", "now", "delays"),
    [
        ({}, 8, 0, (0, 500, 1_000, 2_000, 5_000)),
        ({"latency_ms": 2.0}, 8, 0, (0, 500, 1_000)),
        ({}, 8, 700, (0, 500, 700, 1_000, 2_000, 5_000)),
        ({"callers": 1}, 8, 0, (0,)),
        ({"callers": 1}, 8, 700, (0, 700)),
        ({}, 0, 0, (0,)),
        ({"latency_ms": 0.1}, 8, 0, (0,)),
    ],
)
def test_delays_stay_below_the_bound_and_need_several_callers(
    limits: dict[str, Any], max_batch_size: int, now: int, delays: tuple[int, ...]
) -> None:
    current = Candidate(max_batch_size=max_batch_size, delay_us=now, instances=1, threads=1)
    space = search_space(ModelConfig(max_batch_size=max_batch_size), current, SearchLimits(**(LIMITS | limits)))
    assert space.delays_us == delays


@pytest.mark.parametrize(
    ("cpus", "instances", "threads", "along_instances", "along_threads"),
    [
        (8, 1, 8, [(2, 4), (4, 2), (8, 1)], [(1, 1), (1, 2), (1, 4)]),
        (8, 1, 1, [(2, 1), (4, 1), (8, 1)], [(1, 2), (1, 4), (1, 8)]),
        (6, 1, 6, [(2, 3), (4, 1)], [(1, 1), (1, 2), (1, 4)]),
        (6, 3, 2, [(1, 2), (2, 2), (4, 1)], [(3, 1)]),
        (1, 1, 1, [], []),
        (2, 5, 4, [(1, 2), (2, 1)], []),  # more than there are CPUs is measured once, as what is configured now
        (2000, 1, 2000, None, [(1, 2**power) for power in range(11)]),
    ],
)
def test_threads_and_instances_share_the_cpus(
    cpus: int,
    instances: int,
    threads: int,
    along_instances: list[tuple[int, int]] | None,
    along_threads: list[tuple[int, int]],
) -> None:
    now = Candidate(max_batch_size=0, delay_us=0, instances=instances, threads=threads)
    space = search_space(ModelConfig(), now, SearchLimits(**(LIMITS | {"cpus": cpus})))
    for axis, expected in (("instances", along_instances), ("threads", along_threads)):
        counts = [(candidate.instances, candidate.threads) for candidate in space.along(axis, now)]
        assert expected is None or counts == expected
        assert all(instances * threads <= cpus and instances <= 64 for instances, threads in counts)
    assert space.along("max_batch_size", now) == space.along("delay_us", now) == ()

"""Settings of ``mnserve bench`` that are refused before any work."""

from __future__ import annotations

from typing import Any

import pytest

from mnserve.bench.settings import BenchSettings
from mnserve.bench.timing import TimingPlan
from mnserve.errors import SettingsError


def settings(**fields: Any) -> BenchSettings:
    return BenchSettings(**({"repository": "r", "model": "m"} | fields))


def test_batch_sizes_are_read_in_order_each_once() -> None:
    assert settings(batch="8, 1,32,8").batches == (8, 1, 32)


def test_shapes_are_read_by_input() -> None:
    assert settings(shape=["image:3,32,32", "a:b:7"]).shapes == {"image": (3, 32, 32), "a:b": (7,)}


def test_engines_here_and_in_a_server_are_set_up_alike() -> None:
    words = ["cuda.device_id=1"]
    found = settings(providers=("cuda", "cpu"), provider_options=tuple(words), threads=3, cuda_graph_batches=(1, 8))
    serve = ["--intra-op-threads", "3", "--providers", "cuda", "cpu", "--provider-options", *words]
    assert found.server_arguments == [*serve, "--cuda-graph-batches", "1", "8"]
    assert found.engine_options.providers == ("CUDAExecutionProvider", "CPUExecutionProvider")
    assert found.engine_options.provider_options[0].value == "1"
    assert (found.engine_options.intra_op_threads, found.engine_options.cuda_graph_batches) == (3, (1, 8))


def test_the_plan_takes_what_the_timing_loop_needs() -> None:
    plan = settings(grpc=True, seconds=0.5, rounds=6, concurrency=4).plan
    assert plan == TimingPlan(seconds=0.5, rounds=6, concurrency=4)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"against": "m"}, "MODEL and --against are both 'm'"),
        ({"against": "x.onnx", "grpc": True}, r"--against x\.onnx is a file, which no server serves; leave --grpc out"),
        ({"batch": "1,x"}, r"--batch '1,x' is not a list of batch sizes: 'x' is not a whole number from 1"),
        ({"grpc": True, "url": "a:1", "providers": ("cuda",)}, "the one at --url has its own"),
        ({"cuda_graph_batches": (8,)}, "CUDAExecutionProvider is not among the providers"),
        ({"provider_options": ("cuda.device_id=1",)}, "is not among the providers"),
        ({"batch": "0"}, "'0' is not a whole number from 1 to 2147483647; write for instance --batch 1,8,32"),
        ({"batch": ""}, "--batch '' is not a list"),
        ({"shape": ["image"]}, "--shape 'image' is not NAME:DIM,DIM"),
        ({"shape": ["image:3,-1"]}, "--shape 'image:3,-1' is not NAME:DIM,DIM with dimensions from 1"),
        ({"shape": ["a:1", "a:2"]}, "--shape names the input 'a' twice"),
        ({"seconds": 0.0}, r"--seconds is 0\.0; it must be a number above 0, in seconds, and at most 86400"),
        ({"seconds": 1e300}, r"--seconds is 1e\+300; .* at most 86400 \(24 hours\)"),
        ({"timeout": 1e300}, r"--timeout is 1e\+300; .* at most 86400 \(24 hours\)"),
        ({"rounds": 10**20}, "--rounds is 1(0{20}); it must be at least 1 and at most 1000; ratios"),
        ({"concurrency": 1025, "grpc": True}, "--concurrency is 1025; it must be at least 1 and at most 1024"),
        ({"seed": 2**63}, "--seed is 9223372036854775808; it must be at least 0 and at most 9223372036854775807"),
        ({"seconds": float("inf")}, "--seconds is inf"),
        ({"timeout": -1.0}, r"--timeout is -1\.0"),
        ({"rounds": 0}, "--rounds is 0; it must be at least 1"),
        ({"threads": -1}, "--threads is -1"),
        ({"seed": -1}, "--seed is -1"),
        ({"concurrency": 0, "grpc": True}, "--concurrency is 0; it must be at least 1"),
        ({"concurrency": 2}, "--concurrency goes with --grpc"),
        ({"url": "h:1"}, "--url goes with --grpc"),
        ({"plot": "a.bmp"}, r"--plot 'a\.bmp' has no known ending"),
    ],
)
def test_invalid_settings_are_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        settings(**fields)

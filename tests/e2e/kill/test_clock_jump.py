"""The wall clock jumps by a day, forwards and backwards, under a running server: what waits, waits as long as before.

libfaketime moves the clock of the server's process alone, for C and Python alike, and leaves the monotonic clock as it
is, which is what happens when a clock is set.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

StartServer = Callable[..., Any]
DAY = 86_400
HOUR_NS = 3_600 * 10**9
PATIENT = """
max_batch_size: 8
dynamic_batching {
  max_queue_delay_microseconds: 200000
  default_queue_policy { default_timeout_microseconds: 60000000 allow_timeout_override: true }
}
"""
TOKEN, OTHER_TOKEN = "0123456789abcdef", "fedcba9876543210"


class Clock:
    """The wall clock of a server that is started with ``environment``."""

    def __init__(self, library: Path, file: Path) -> None:
        self._file = file
        self.set(0)
        self.environment = {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }

    def set(self, seconds: int) -> None:
        """So far from the true time, from now on."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{seconds:+d}\n")
        new.replace(self._file)  # nobody reads half of it


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    """A clock that can be set; skipped where libfaketime is not installed."""
    library = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
    if library is None:
        pytest.skip("libfaketime is not installed (Debian: apt-get install faketime)")
    return Clock(library, tmp_path / "clock")


@pytest.fixture(params=[DAY, -DAY], ids=["forwards", "backwards"])
def jump(request: pytest.FixtureRequest) -> int:
    """Seconds by which the clock jumps."""
    return int(request.param)


@pytest.fixture
def patient_root(root: Path) -> Path:
    """The repository, with a time in the queue for ``slow`` and a delay for company."""
    (root / "slow" / "config.pbtxt").write_text(PATIENT)
    return root


def stub_of(channel: Any) -> Any:
    return service_pb2_grpc.GRPCInferenceServiceStub(channel)


def last_inference(stub: Any, model: str) -> float:
    """The date that statistics have, in seconds."""
    (stats,) = stub.ModelStatistics(service_pb2.ModelStatisticsRequest(name=model)).model_stats
    return float(stats.last_inference / 1000)


def test_a_clock_jump_changes_no_deadline_and_no_drain(
    start_server: StartServer, patient_root: Path, clock: Clock, jump: int, request_for: Any, closed_loop: Any
) -> None:
    arguments = ("--log-level", "debug", "--run-timeout", "600", "--drain-delay", "1")
    server = start_server(patient_root, *arguments, environment=clock.environment)
    loop = closed_loop(server.address)
    with grpc.insecure_channel(server.address) as channel:
        stub = stub_of(channel)
        stub.ModelInfer(request_for(1.0))
        assert abs(last_inference(stub, "double") - time.time()) < DAY / 4
        # In the queue, running, with a deadline and without, while the clock jumps.
        calls = [stub.ModelInfer.future(request_for(value, "slow"), timeout=120) for value in range(16)]
        calls += [stub.ModelInfer.future(request_for(value, "slow")) for value in range(16, 24)]
        loop.start(2)
        loop.start(1, streams=True)
        server.wait_for_admitted("slow", 20)
        clock.set(jump)
        stub.ModelInfer(request_for(1.0))
        shown = last_inference(stub, "double") - time.time()
        assert abs(shown - jump) < DAY / 4, "the clock of the server has not jumped: this test shows nothing"
        for value, call in enumerate(calls):
            assert np.frombuffer(call.result().raw_output_contents[0], "<f4").tolist() == pytest.approx([value] * 4)
        before = loop.right
        server.wait_until(lambda: loop.right >= before + 50 or bool(loop.refusals))
        loop.stop()
        assert (loop.wrong, loop.refusals) == ([], [])
        check_deadlines(stub, server, request_for)
        check_durations(stub)
        # The end: no longer, and no shorter, than what was admitted takes.
        calls = [stub.ModelInfer.future(request_for(value, "slow"), timeout=120) for value in range(16)]
        server.wait_for_admitted("slow", 24 + 8 + 16)
        server.process.send_signal(signal.SIGTERM)
        server.wait_for_log("stopping: finishing what was admitted")
        clock.set(0)
        for value, call in enumerate(calls):
            assert np.frombuffer(call.result().raw_output_contents[0], "<f4").tolist() == pytest.approx([value] * 4)
    assert server.process.wait(60) == 0
    assert "Traceback" not in server.log()
    assert "given up" not in server.log()


def check_deadlines(stub: Any, server: Any, request_for: Any) -> None:
    """Deadlines of gRPC and times in the queue still end while the engine is busy."""
    busy = [stub.ModelInfer.future(request_for(value, "slow"), timeout=120) for value in range(8)]
    server.wait_for_admitted("slow", 24 + 8)
    with pytest.raises(grpc.RpcError) as late:
        stub.ModelInfer(request_for(1.0, "slow"), timeout=0.05)
    assert late.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED  # type: ignore[attr-defined]
    hurried = request_for(1.0, "slow")
    hurried.parameters["timeout"].int64_param = 1000
    with pytest.raises(grpc.RpcError) as refused:
        stub.ModelInfer(hurried, timeout=120)
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE  # type: ignore[attr-defined]
    assert "Request timeout expired" in refused.value.details()  # type: ignore[attr-defined]
    for call in busy:
        call.result()


def check_durations(stub: Any) -> None:
    """None is negative (the protocol has none: it would be huge) or a day long."""
    for stats in stub.ModelStatistics(service_pb2.ModelStatisticsRequest()).model_stats:
        for _, duration in stats.inference_stats.ListFields():
            assert duration.ns < HOUR_NS, stats


def test_rate_limits_and_token_files_survive_a_clock_jump(
    start_server: StartServer, root: Path, clock: Clock, jump: int, request_for: Any, tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens"
    tokens.touch(0o600)
    tokens.write_text(f"{TOKEN} infer\n")
    rate = "0.01" if jump > 0 else "0.5"  # forwards the next one would be let in by mistake, backwards none ever
    limits = ("--rate-limit", rate, "--rate-burst", "2", "--token-file", str(tokens))
    poll = ("--model-control", "poll", "--poll-seconds", "0.2")
    server = start_server(root, *limits, *poll, environment=clock.environment)
    with grpc.insecure_channel(server.address) as channel:
        stub = stub_of(channel)

        def ask(token: str) -> str:
            try:
                stub.ModelInfer(request_for(1.0), metadata=(("authorization", f"Bearer {token}"),))
            except grpc.RpcError as error:
                return str(error.code().name)  # type: ignore[attr-defined]
            return "OK"

        assert [ask(TOKEN) for _ in range(2)] == ["OK", "OK"]
        assert ask(TOKEN) == "RESOURCE_EXHAUSTED"
        clock.set(jump)
        if jump > 0:
            assert ask(TOKEN) == "RESOURCE_EXHAUSTED", "a jump is no time in which requests were saved"
        else:
            server.wait_until(lambda: ask(TOKEN) == "OK")
        # Files are compared with what they were, whatever the clock says.
        new = tokens.with_suffix(".new")
        new.touch(0o600)
        new.write_text(f"{OTHER_TOKEN} infer\n")
        new.replace(tokens)
        server.wait_until(lambda: ask(OTHER_TOKEN) == "OK")
        assert ask(TOKEN) == "UNAUTHENTICATED"
        os.rename(root / "text", root / "renamed")
        server.wait_for_log("model 'renamed' version 1 is ready")
    server.process.terminate()
    assert server.process.wait(60) == 0
    assert "Traceback" not in server.log()

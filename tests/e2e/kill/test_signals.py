"""SIGTERM and SIGINT under load: what was admitted is answered, the others hear UNAVAILABLE, nobody hears nonsense."""

from __future__ import annotations

import collections
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

StartServer = Callable[..., Any]
ClosedLoops = Callable[[str], Any]

ANSWERED = re.compile(r"model '\w+' version 1: \d+ rows in")
ENDED = re.compile(r"model '\w+': a request ended as (.*)")
# What a caller may be told that was never let in: by us, or by the system once the port is closed.
CLEAN = ("is stopping and takes no new requests", "open the stream again", "failed to connect", "Connection refused")
ALONE = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child")
"""Runs a command as process 1 of a namespace of its own, as the only process of a container is."""


def under_load(loop: Any, server: Any) -> None:
    """Unary callers and streams of a fast and of a slow model, well under way."""
    loop.start(12)
    loop.start(4, streams=True)
    loop.start(4, model="slow", factor=1.0)
    loop.start(2, model="slow", factor=1.0, streams=True)
    server.wait_until(lambda: loop.right >= 300)
    server.wait_for_log("model 'slow': running")


def check_nothing_was_lost(loop: Any, server: Any) -> None:
    assert loop.wrong == []
    assert {code for code, _ in loop.refusals} <= {"UNAVAILABLE", "STREAM"}
    assert [text for _, text in loop.refusals if not any(clean in text for clean in CLEAN)] == []
    assert len(loop.refusals) >= 22  # every caller heard of it
    # Every request that the server answered has reached its caller, and every other one was refused at the door.
    log = server.log()
    assert len(ANSWERED.findall(log)) == loop.right
    reasons = ENDED.findall(log)
    assert [reason for reason in reasons if "is stopping and takes no new requests" not in reason] == []
    assert "Traceback" not in log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_no_accepted_request_is_lost(
    start_server: StartServer, root: Path, closed_loop: ClosedLoops, number: signal.Signals
) -> None:
    server = start_server(root, "--log-level", "debug")
    loop = closed_loop(server.address)
    under_load(loop, server)
    server.process.send_signal(number)
    loop.join()
    assert server.process.wait(60) == 0
    check_nothing_was_lost(loop, server)


def test_no_call_that_arrives_during_a_stop_is_cancelled(start_server: StartServer, root: Path) -> None:
    """Callers that ask at a steady rate, whatever they hear, on connections that they open again and again."""
    server = start_server(root)
    ended, outcomes = threading.Event(), collections.Counter[str]()
    message = service_pb2.ModelInferRequest(model_name="double", raw_input_contents=[np.ones((1, 4), "<f4").tobytes()])
    message.inputs.add(name="x", datatype="FP32", shape=[1, 4])

    def ask(ask_one: Callable[[Any], Any]) -> None:
        calls = []
        with grpc.insecure_channel(server.address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            while not ended.wait(0.002):
                calls.append(ask_one(channel))
            outcomes.update(call.code().name for call in calls)

    def infer(channel: grpc.Channel) -> Any:
        return service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer.future(message, timeout=60)

    def live(channel: grpc.Channel) -> Any:
        question = service_pb2.ServerLiveRequest()
        return service_pb2_grpc.GRPCInferenceServiceStub(channel).ServerLive.future(question, timeout=60)

    with ThreadPoolExecutor() as pool:
        asking = [pool.submit(ask, call) for call in (infer, infer, live)]
        time.sleep(0.5)
        server.process.terminate()
        assert server.process.wait(60) == 0
        time.sleep(0.2)
        ended.set()
        for caller in asking:
            caller.result()
    assert outcomes.keys() == {"OK", "UNAVAILABLE"}
    assert "Traceback" not in server.log()
    assert "E1" not in server.log()  # gRPC's own lines


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_under_load_ends_it_at_once(
    start_server: StartServer, root: Path, closed_loop: ClosedLoops, number: signal.Signals
) -> None:
    server = start_server(root, "--log-level", "debug", "--drain-delay", "600")
    loop = closed_loop(server.address)
    under_load(loop, server)
    server.process.send_signal(number)
    server.wait_for_log("stopping: finishing what was admitted")
    answered = loop.right
    server.wait_until(lambda: loop.right >= answered + 100)  # the delay: it still answers
    server.process.send_signal(number)
    assert server.process.wait(20) == 130
    loop.join()
    assert loop.wrong == []
    assert {code for code, _ in loop.refusals} == {"UNAVAILABLE"}


@pytest.fixture
def first_process(start_server: StartServer, root: Path) -> tuple[Any, int]:
    """A server that is process 1 of its namespace, and its number in ours."""
    try:
        subprocess.run([*ALONE, "true"], check=True, capture_output=True, timeout=20)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"no namespace of processes may be made here: {error}")
    server = start_server(root, "--log-level", "debug", "--drain-timeout", "60", prefix=ALONE)
    parent = server.process.pid
    (child,) = map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text().split())
    status = Path(f"/proc/{child}/status").read_text()
    assert re.search(rf"^NSpid:\s+{child}\s+1$", status, re.MULTILINE), status
    return server, child


def test_a_signal_drains_process_1(first_process: tuple[Any, int], closed_loop: ClosedLoops) -> None:
    """Process 1 has no default action for signals: one without a handler would be ignored."""
    server, number = first_process
    loop = closed_loop(server.address)
    under_load(loop, server)
    os.kill(number, signal.SIGTERM)
    loop.join()
    assert server.process.wait(60) == 0
    check_nothing_was_lost(loop, server)


def test_a_second_signal_ends_process_1_at_once(first_process: tuple[Any, int], closed_loop: ClosedLoops) -> None:
    server, number = first_process
    loop = closed_loop(server.address)
    loop.start(40, model="slow", factor=1.0)  # seconds of work
    server.wait_for_admitted("slow", 20)
    os.kill(number, signal.SIGTERM)
    server.wait_for_log("stopping: finishing what was admitted")
    os.kill(number, signal.SIGTERM)
    assert server.process.wait(20) == 130

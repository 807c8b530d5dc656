"""Clients that misbehave: thousands of connections, garbage on them, and callers that stop reading."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from signal import SIGSTOP
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2_grpc

from tests.e2e.load import message

StartServer = Callable[..., Any]
CONNECTIONS = 2000
MEBIBYTE = 2**20
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_FLOOD = """
import sys, numpy as np, grpc
from tritonclient.grpc import service_pb2_grpc
from tests.e2e.load import message
stub = service_pb2_grpc.GRPCInferenceServiceStub(grpc.insecure_channel(sys.argv[1]))
big = message("wide", 1)
big.inputs[0].shape[:] = [1, 500_000]
big.raw_input_contents[0] = np.zeros(500_000, "<f4").tobytes()
calls = [stub.ModelInfer.future(big) for _ in range(64)]
print("sent", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def many_files() -> Iterator[None]:
    """As many open files as are needed, here and in processes that are started."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * CONNECTIONS:
        pytest.skip(f"a process may have {hard} files open, too few for {CONNECTIONS} connections")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * CONNECTIONS), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def root(write_models: Callable[[Path], None], tmp_path: Path) -> Path:
    from onnx import TensorProto, helper

    write_models(tmp_path)
    rows = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 500_000]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "wide", rows[:1], rows[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    (tmp_path / "wide" / "1").mkdir(parents=True)
    (tmp_path / "wide" / "1" / "model.onnx").write_bytes(model.SerializeToString())
    (tmp_path / "wide" / "config.pbtxt").write_text("max_batch_size: 4")
    return tmp_path


def ask(address: str) -> list[float]:
    with grpc.insecure_channel(address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        answer = stub.ModelInfer(message("double", 3), timeout=60)
    found: list[float] = np.frombuffer(answer.raw_output_contents[0], "<f4").tolist()
    return found


def files_of(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.usefixtures("many_files")
def test_two_thousand_connections(start_server: StartServer, root: Path) -> None:
    server = start_server(root)
    host, port = server.address.rsplit(":", 1)
    assert ask(server.address) == [6] * 4
    before = files_of(server.process.pid)
    with contextlib.ExitStack() as stack:
        for number in range(CONNECTIONS):
            connection = stack.enter_context(socket.create_connection((host, int(port)), timeout=60))
            if number % 4 == 0:
                connection.sendall(_PREFACE)  # one that says nothing more
            elif number % 4 == 1:
                connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
            elif number % 4 == 2:
                connection.sendall(bytes(range(256)))
        assert ask(server.address) == [6] * 4
        until(lambda: files_of(server.process.pid) > before + CONNECTIONS // 8)
        assert ask(server.address) == [6] * 4
    until(lambda: files_of(server.process.pid) < before + 20)
    assert ask(server.address) == [6] * 4
    server.process.terminate()
    assert server.process.wait(60) == 0


def test_streams_that_are_never_read(start_server: StartServer, root: Path) -> None:
    """A server that kept what nobody fetches would hold a gigabyte here."""
    server = start_server(root, "--drain-timeout", "5")
    assert ask(server.address) == [6] * 4
    before = resident_bytes(server.process.pid)
    big = message("wide", 1)
    big.inputs[0].shape[:] = [1, 500_000]
    big.raw_input_contents[0] = np.zeros(500_000, "<f4").tobytes()
    with grpc.insecure_channel(server.address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        streams = [stub.ModelStreamInfer(iter([big] * 256)) for _ in range(2)]
        server.wait_for_metric('nv_inference_request_success{model="wide"', 2)
        settled = -1.0
        while settled != (settled := server.metric('nv_inference_request_success{model="wide"')):
            time.sleep(0.5)
        assert settled < 512  # it stopped reading
        assert ask(server.address) == [6] * 4
        assert resident_bytes(server.process.pid) - before < 700 * MEBIBYTE
        server.process.terminate()
        server.process.wait(60)  # nobody who does not read keeps it from ending
        for stream in streams:
            stream.cancel()


def test_a_client_that_stops_in_the_middle(start_server: StartServer, root: Path) -> None:
    server = start_server(root, "--drain-timeout", "5")
    assert ask(server.address) == [6] * 4
    command = [sys.executable, "-c", _FLOOD, server.address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "sent\n"
        server.wait_for_metric('nv_inference_request_success{model="wide"', 1)
        client.send_signal(SIGSTOP)
        for _ in range(20):
            assert ask(server.address) == [6] * 4
        server.process.terminate()
        server.process.wait(60)
        client.kill()
    assert "Traceback" not in server.log()

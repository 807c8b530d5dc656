"""Clients that ask for much and read nothing: they cost bounded memory, and neither the others nor the end wait."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from process_tree import memory
from tritonclient.grpc import service_pb2, service_pb2_grpc

StartServer = Callable[..., Any]
WIDTH = 65_536
ANSWER_BYTES = 4 * WIDTH
REQUESTS = 500
"""Of each stalled client; their answers together are 125 MiB."""
BOUND_BYTES = 128 * 1024 * 1024
"""Two streams hold 64 answers each, which is a quarter of this; all answers together are three times as much."""
SUCCESS = 'nv_inference_request_success{model="wide"'

STREAM, UNARY = (f"/inference.GRPCInferenceService/{method}" for method in ("ModelStreamInfer", "ModelInfer"))
WATCH = "/grpc.health.v1.Health/Watch"
DATA, HEADERS, SETTINGS, WINDOW_UPDATE = 0, 1, 4, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
INITIAL_WINDOW_SIZE = 4
LARGEST_WINDOW = 2**31 - 1


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """RFC 9113, section 4.1."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def text(value: str) -> bytes:
    return bytes([len(value)]) + value.encode()


class RawClient:
    """HTTP/2 by hand, because every library reads.

    Args:
        address: Of the server.
        window: Bytes of a stream that it says it would read: 0 stops the server by flow control of HTTP/2, many leave
            it to TCP, whose buffers fill up.
    """

    def __init__(self, address: str, window: int) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=20)
        settings = struct.pack(">HI", INITIAL_WINDOW_SIZE, window)
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0, settings))
        assert self.socket.recv(9)[3] == SETTINGS  # the last thing that it ever reads
        self.socket.sendall(frame(SETTINGS, ACK, 0))
        if window:
            self.socket.sendall(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", LARGEST_WINDOW - 65_535)))

    def call(self, stream: int, path: str, messages: list[bytes], *, end: bool) -> None:
        """Opens a call and sends messages."""
        block = b"\x83\x86"  # :method POST, :scheme http, of HPACK's own table
        block += b"\x04" + text(path) + b"\x01" + text("localhost")
        block += b"\x00" + text("content-type") + text("application/grpc") + b"\x00" + text("te") + text("trailers")
        self.socket.sendall(frame(HEADERS, END_HEADERS, stream, block))
        payload = b"".join(struct.pack(">BI", 0, len(message)) + message for message in messages)
        for begin in range(0, len(payload), 16_384):
            last = begin + 16_384 >= len(payload)
            self.socket.sendall(frame(DATA, END_STREAM if end and last else 0, stream, payload[begin : begin + 16_384]))


def wide_request(value: float) -> Any:
    message = service_pb2.ModelInferRequest(model_name="wide")
    message.inputs.add(name="x", datatype="FP32", shape=[1, 1])
    message.raw_input_contents.append(np.float32(value).tobytes())
    return message


def resident_bytes(process: Any) -> int:
    return memory(process.pid, "VmRSS")


@pytest.fixture
def server(start_server: StartServer, repository: Path, onnx_model: Callable[..., Path]) -> Any:
    """Serves ``wide``, which answers 4 bytes with 256 KiB of the same."""
    shapes = {"x": ("FLOAT", ["batch", 1])}, {"y": ("FLOAT", ["batch", WIDTH])}
    ones = np.ones((1, WIDTH), np.float32)
    onnx_model("wide", [("MatMul", ["x", "ones"], ["y"])], *shapes, initializers={"ones": ones})
    return start_server(repository, "--max-concurrent-streams", "16")


@pytest.fixture
def stub(server: Any) -> Iterator[Any]:
    with grpc.insecure_channel(server.address) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


def ask_others(stub: Any, count: int) -> None:
    """Callers that read, whose answers are their own."""
    with ThreadPoolExecutor(4) as pool:
        answers = pool.map(lambda value: stub.ModelInfer(wide_request(value), timeout=60), range(count))
        for value, response in enumerate(answers):
            answer = np.frombuffer(response.raw_output_contents[0], "<f4")
            assert (answer.size, answer.min(), answer.max()) == (WIDTH, value, value)


def test_clients_that_stop_reading_are_held_in_bounded_memory(server: Any, stub: Any) -> None:
    ask_others(stub, 32)
    before = resident_bytes(server.process)
    message = wide_request(1.0).SerializeToString()
    patient = [RawClient(server.address, window) for window in (0, LARGEST_WINDOW)]
    for client in patient:
        client.call(1, STREAM, [message] * REQUESTS, end=False)
    unary = RawClient(server.address, 0)
    for number in range(REQUESTS):
        unary.call(2 * number + 1, UNARY, [message], end=True)
    stalled = 2 * 64 + 16
    server.wait_until(lambda: server.metric(SUCCESS) >= 32 + stalled)
    answered = 32
    for _ in range(8):
        ask_others(stub, 16)
        answered += 16
    # What TCP itself holds for the client that leaves it to TCP is the system's, some megabytes.
    assert server.metric(SUCCESS) <= answered + stalled + REQUESTS / 2
    assert resident_bytes(server.process) - before < BOUND_BYTES
    server.process.terminate()
    # Nothing was admitted that could not be computed. Left to itself gRPC would wait 20 s for the stalled clients.
    assert server.process.wait(15) == 0
    for client in [*patient, unary]:
        client.socket.close()
    assert "Traceback" not in server.log()
    assert "ERROR" not in server.log()


def test_a_stalled_client_that_goes_on_reading_gets_all(server: Any, stub: Any) -> None:
    """No answer is dropped during the stall: a stream of 256 answers is read long after they were computed."""
    call = stub.ModelStreamInfer(wide_request(value) for value in range(256))
    server.wait_until(lambda: server.metric(SUCCESS) >= 64)
    ask_others(stub, 32)
    for value, answer in enumerate(call):
        rows = np.frombuffer(answer.infer_response.raw_output_contents[0], "<f4")
        assert (answer.error_message, rows.min(), rows.max()) == ("", value, value)
    assert value == 255


def test_a_watcher_that_reads_nothing_delays_no_other_watcher(
    start_server: StartServer, repository: Path, double_model: Callable[..., Path]
) -> None:
    """Stalled watchers of the server and of a model do not keep others from hearing that both have ended."""
    double_model("double")
    server = start_server(repository, "--model-control", "explicit", "--load-model", "double", "--drain-delay", "2")
    stalled = [RawClient(server.address, window) for window in (0, 0, 5)]
    for client, service in zip(stalled, ("", "double", "double"), strict=True):
        client.call(1, WATCH, [health_pb2.HealthCheckRequest(service=service).SerializeToString()], end=True)
    with grpc.insecure_channel(server.address) as channel:
        health, control = health_pb2_grpc.HealthStub(channel), service_pb2_grpc.GRPCInferenceServiceStub(channel)

        def status(service: str) -> Any:
            return health.Check(health_pb2.HealthCheckRequest(service=service), timeout=20).status

        serving, ended = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
        assert (status(""), status("double")) == (serving, serving)
        watching = health.Watch(health_pb2.HealthCheckRequest(service="double"), timeout=60)
        assert next(watching).status == serving
        control.RepositoryModelUnload(service_pb2.RepositoryModelUnloadRequest(model_name="double"), timeout=20)
        assert next(watching).status == ended
        assert status("double") == ended
        server.process.terminate()
        server.wait_until(lambda: status("") == ended)
    for client in stalled[:2]:
        client.socket.close()
    assert server.process.wait(20) == 0
    stalled[2].socket.close()
    assert "Traceback" not in server.log()
    assert "ERROR" not in server.log()

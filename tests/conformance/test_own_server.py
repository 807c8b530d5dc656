"""Limits of messages, and stopping: checks that need a server which the test starts and ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from open_inference import arrived, numbers, outputs_of, refused, request, rows
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

PATIENCE = 60
LIMIT = 256 * 1024


@pytest.fixture(scope="module")
def server(start_own: Callable[..., Any]) -> Any:
    return start_own("--max-message-bytes", str(LIMIT))


@pytest.fixture
def its_stub(server: Any) -> Iterator[Any]:
    with grpc.insecure_channel(server.address, options=[("grpc.max_receive_message_length", -1)]) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


def wide(nbytes: int) -> Any:
    """A request of about so many bytes, whose answer has twice as many."""
    return request("wide", {"x": numbers(np.ones((1, nbytes // 4), "<f4"))})


def test_messages_over_the_limit_are_refused(its_stub: Any) -> None:
    assert its_stub.ModelInfer(wide(LIMIT // 4)).raw_output_contents
    with refused("RESOURCE_EXHAUSTED", str(LIMIT)):
        its_stub.ModelInfer(wide(LIMIT))
    assert its_stub.ModelInfer(wide(64)).raw_output_contents


def test_answers_over_the_limit_are_refused(its_stub: Any) -> None:
    with refused("RESOURCE_EXHAUSTED", "'wide'", str(LIMIT)):
        its_stub.ModelInfer(wide(LIMIT * 3 // 4))
    assert its_stub.ModelInfer(wide(64)).raw_output_contents


def test_metadata_over_the_limit_is_refused(its_stub: Any) -> None:
    with refused("RESOURCE_EXHAUSTED"):
        its_stub.ModelInfer(wide(64), metadata=[("much", "x" * 20_000)])
    assert its_stub.ModelInfer(wide(64), metadata=[("little", "x" * 1000)]).raw_output_contents


@pytest.fixture
def stopping(start_own: Callable[..., Any]) -> Iterator[tuple[Any, Any]]:
    """A server that a test may end, and its calls."""
    server = start_own()
    with grpc.insecure_channel(server.address) as channel:
        yield server, service_pb2_grpc.GRPCInferenceServiceStub(channel)


def test_stopping_refuses_the_new_and_finishes_the_admitted(stopping: tuple[Any, Any], slow: Any) -> None:
    """A stream is finished too, although its caller never ends it."""
    server, its_stub = stopping
    running = its_stub.ModelInfer.future(slow(1.5, 1))
    open_end = threading.Event()
    stream = its_stub.ModelStreamInfer(unfinished(slow(0, 4), open_end))
    arrived(its_stub)
    waiting = [its_stub.ModelInfer.future(slow(0, value)) for value in (2, 3)]
    arrived(its_stub)
    assert not running.done()
    server.process.terminate()
    error = until_refused(its_stub)
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert "stopping" in error.details()
    assert dict(error.trailing_metadata())["grpc-retry-pushback-ms"]
    assert not running.done()  # so it is still there to say so
    assert not its_stub.ModelReady(pb.ModelReadyRequest(name="double")).ready
    found = [float(outputs_of(call.result(PATIENCE))["y"][0, 0]) for call in (running, *waiting)]
    assert found == pytest.approx([1, 2, 3])
    assert outputs_of(next(stream).infer_response)["y"][0, 0] == pytest.approx(4)
    with refused("UNAVAILABLE", "stopping"):
        next(stream)
    open_end.set()
    assert server.process.wait(PATIENCE) == 0


def unfinished(message: Any, end: threading.Event) -> Iterator[Any]:
    """Requests of a stream: one, and no end."""
    yield message
    end.wait(PATIENCE)


def until_refused(stub: Any) -> Any:
    """Error of the first request that a stopping server refuses."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            stub.ModelInfer(request("double", {"x": rows(1)}))
        except grpc.RpcError as error:
            return error
    pytest.fail("the server goes on taking requests")

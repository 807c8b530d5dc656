"""Streams of requests over a real server with NVIDIA's client."""

from __future__ import annotations

import queue
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.grpc import service_pb2, service_pb2_grpc

StartServer = Callable[..., Any]
METHOD = "/inference.GRPCInferenceService/ModelStreamInfer"


@pytest.fixture(scope="module")
def server(start_server: StartServer, write_models: Callable[[Path], None], tmp_path_factory: Any) -> Any:
    root = tmp_path_factory.mktemp("repository")
    write_models(root)
    return start_server(root)


@pytest.fixture
def stub(server: Any) -> Iterator[Any]:
    with grpc.insecure_channel(server.address) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


def request(value: float, rows: int = 1, **fields: Any) -> Any:
    message = service_pb2.ModelInferRequest(model_name=fields.pop("model", "double"), id=str(value), **fields)
    message.inputs.add(name="x", datatype="FP32", shape=[rows, 4])
    message.raw_input_contents.append(np.full((rows, 4), value, "<f4").tobytes())
    return message


def values(answer: Any) -> list[float]:
    found: list[float] = np.frombuffer(answer.infer_response.raw_output_contents[0], "<f4").tolist()
    return found


def test_answers_come_in_order_whatever_the_batches(stub: Any) -> None:
    sizes = [1, 3, 2, 4, 1, 1, 4, 2] * 25
    answers = list(stub.ModelStreamInfer(request(number, rows) for number, rows in enumerate(sizes)))
    assert [answer.infer_response.id for answer in answers] == [str(number) for number in range(200)]
    assert [values(answer) for answer in answers] == [[2.0 * n] * 4 * rows for n, rows in enumerate(sizes)]
    assert not any(answer.error_message for answer in answers)
    assert not any(answer.infer_response.parameters for answer in answers)


def test_a_request_that_fails_does_not_end_the_stream(stub: Any) -> None:
    wrong = request(1)
    wrong.inputs[0].shape[1] = 3
    answers = list(stub.ModelStreamInfer(iter([request(0), wrong, request(2, model="none"), request(3)])))
    assert [answer.infer_response.id for answer in answers] == ["0", "1", "2", "3"]
    assert [bool(answer.error_message) for answer in answers] == [False, True, True, False]
    assert "has shape [1, 3], expected [-1, 4]" in answers[1].error_message
    assert "there is no model 'none'" in answers[2].error_message
    assert values(answers[3]) == [6.0] * 4


def test_the_final_answer_is_marked_on_request(stub: Any) -> None:
    asked = request(1)
    asked.parameters["triton_enable_empty_final_response"].bool_param = True
    (answer,) = stub.ModelStreamInfer(iter([asked]))
    assert answer.infer_response.parameters["triton_final_response"].bool_param


def test_an_empty_stream_ends(stub: Any) -> None:
    assert list(stub.ModelStreamInfer(iter([]))) == []


def test_the_stream_of_nvidias_client_is_answered_in_order(server: Any) -> None:
    answers: queue.Queue[Any] = queue.Queue()
    with triton.InferenceServerClient(server.address) as client:
        client.start_stream(callback=lambda result, error: answers.put((result, error)))
        for number in range(20):
            tensor = triton.InferInput("x", [1, 4], "FP32")
            tensor.set_data_from_numpy(np.full((1, 4), number, np.float32))
            name = "gone" if number == 7 else "double"
            client.async_stream_infer(name, [tensor], request_id=str(number), enable_empty_final_response=True)
        found = [answers.get(timeout=20) for _ in range(20)]
        client.stop_stream()
    assert "there is no model 'gone'" in str(found[7][1])
    for number, (result, error) in enumerate(found):
        if number != 7:
            assert error is None
            assert result.get_response().id == str(number)
            assert result.as_numpy("y").tolist() == [[2.0 * number] * 4]


def test_a_message_that_is_none_ends_the_stream(server: Any) -> None:
    with grpc.insecure_channel(server.address) as channel:
        call = channel.stream_stream(METHOD)(iter([request(5).SerializeToString(), b"\xff" * 9]))
        first = service_pb2.ModelStreamInferResponse.FromString(next(call))
        assert values(first) == [10.0] * 4
        with pytest.raises(grpc.RpcError) as caught:
            next(call)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT  # type: ignore[attr-defined]
    assert caught.value.details() == "the message is not a valid ModelInferRequest"  # type: ignore[attr-defined]


def test_cancelled_streams_leave_the_server_answering(stub: Any) -> None:
    for _ in range(20):
        call = stub.ModelStreamInfer(request(number) for number in range(100))
        next(call)
        call.cancel()
    answers = list(stub.ModelStreamInfer(request(number) for number in range(10)))
    assert [values(answer) for answer in answers] == [[2.0 * number] * 4 for number in range(10)]


def test_a_server_that_stops_ends_its_streams(
    start_server: StartServer, write_models: Callable[[Path], None], tmp_path: Path
) -> None:
    """Admitted requests are answered, and an open stream does not delay the end of the server."""
    write_models(tmp_path)
    server = start_server(tmp_path, "--log-level", "debug")
    requests: queue.Queue[Any] = queue.Queue()
    with grpc.insecure_channel(server.address) as channel:
        call = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelStreamInfer(iter(requests.get, None))
        requests.put(request(1))
        assert values(next(call)) == [2.0] * 4
        requests.put(request(3, model="slow"))
        server.wait_for_log("model 'slow': running 1 requests")
        server.process.send_signal(signal.SIGTERM)
        assert values(next(call))[:1] == [3.0]
        with pytest.raises(grpc.RpcError) as caught:
            next(call)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE  # type: ignore[attr-defined]
        assert "open the stream again" in caught.value.details()  # type: ignore[attr-defined]
        assert server.process.wait(20) == 0
        requests.put(None)

"""The client against servers that misbehave, and against none: every outcome is an answer or one clear sentence."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnserve.client.blocking import Client
from mnserve.client.errors import translate
from mnserve.errors import (
    AnswerTimeoutError,
    ClientError,
    RequestRefusedError,
    ServerUnreachableError,
    SettingsError,
)
from mnserve.protocol import service_pb2 as pb
from mnserve.protocol.service_pb2_grpc import (
    GRPCInferenceServiceServicer,
    add_GRPCInferenceServiceServicer_to_server,
)

Infer = Callable[[pb.ModelInferRequest, grpc.ServicerContext], pb.ModelInferResponse]


class Scripted(GRPCInferenceServiceServicer):
    """Answers ModelInfer with a function; the rest is UNIMPLEMENTED unless a test sets it."""

    def __init__(self) -> None:
        self.infer: Infer = lambda request, context: pb.ModelInferResponse()
        self.index: list[str] | None = None
        self.statistics: list[str] | None = None

    def ModelInfer(self, request: pb.ModelInferRequest, context: grpc.ServicerContext) -> pb.ModelInferResponse:
        return self.infer(request, context)

    def RepositoryIndex(self, request: Any, context: grpc.ServicerContext) -> pb.RepositoryIndexResponse:
        if self.index is None:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "switched off")
        return pb.RepositoryIndexResponse(models=[{"name": name} for name in self.index or ()])

    def ModelStatistics(self, request: Any, context: grpc.ServicerContext) -> pb.ModelStatisticsResponse:
        if self.statistics is None:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "switched off")
        return pb.ModelStatisticsResponse(model_stats=[{"name": name} for name in self.statistics or ()])


@pytest.fixture
def served() -> Iterator[tuple[Scripted, str]]:
    server = grpc.server(ThreadPoolExecutor(4))
    script = Scripted()
    add_GRPCInferenceServiceServicer_to_server(script, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield script, f"127.0.0.1:{port}"
    server.stop(None).wait()


def aborting(code: grpc.StatusCode, details: str) -> Infer:
    def infer(request: pb.ModelInferRequest, context: grpc.ServicerContext) -> pb.ModelInferResponse:
        context.abort(code, details)

    return infer


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


ONE = {"x": np.ones((1, 2), np.float32)}


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("localhost:9000", "localhost:9000"),
        ("localhost", "localhost:8001"),
        ("grpc://10.0.0.1:7/", "10.0.0.1:7"),
        ("[::1]:8001", "[::1]:8001"),
        ("unix:/run/mn.sock", "unix:/run/mn.sock"),
    ],
)
def test_addresses_are_completed(url: str, address: str) -> None:
    with Client(url) as client:
        assert client.url == address


@pytest.mark.parametrize("url", ["", "http://h:1", "h:port", "h:0", "h:70000", "h:1/path", "a b", "user@h:1", "::1"])
def test_invalid_addresses_are_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="is not the address of a gRPC server; write HOST:PORT"):
        Client(url)


@pytest.mark.parametrize("timeout", [0.0, -1.0, float("nan"), float("inf")])
def test_timeouts_are_positive(timeout: float) -> None:
    with pytest.raises(SettingsError, match="seconds above 0"):
        Client("h:1", timeout)


def test_no_server_is_one_sentence_with_the_remedy() -> None:
    url = f"127.0.0.1:{free_port()}"
    with Client(url, 20) as client:
        for call in (client.server_live, lambda: client.model_config("m"), lambda: client.infer("m", ONE)):
            with pytest.raises(ServerUnreachableError, match=f"no server answers at {url} .*mnserve serve REPOSITORY"):
                call()
        assert client.model_names() == []


def test_a_port_of_another_protocol_is_an_unreachable_server(served: tuple[Scripted, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def speak() -> None:
            with listener.accept()[0] as connection:
                connection.recv(100)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

        threading.Thread(target=speak, daemon=True).start()
        with Client(f"127.0.0.1:{listener.getsockname()[1]}", 20) as client, pytest.raises(ClientError) as caught:
            client.server_live()
        assert "127.0.0.1" in str(caught.value)


def test_arrays_go_and_come_unchanged(served: tuple[Scripted, str]) -> None:
    script, url = served

    def echo(request: pb.ModelInferRequest, context: grpc.ServicerContext) -> pb.ModelInferResponse:
        assert (request.model_name, request.model_version) == ("m", "3")
        assert [one.name for one in request.outputs] == ["a", "text"]
        response = pb.ModelInferResponse(raw_output_contents=request.raw_input_contents)
        for one in request.inputs:
            response.outputs.add(name=one.name, datatype=one.datatype, shape=one.shape)
        return response

    script.infer = echo
    inputs = {
        "a": np.arange(6, dtype=">f8").reshape(2, 3)[:, ::-1],  # neither contiguous nor little-endian
        "half": np.ones((2, 1), np.float16),
        "truth": np.array([True, False]),
        "text": np.array([b"", b"\xff\x00", b"abc"], object),
        "nothing": np.zeros((0, 4), np.int64),
        "bits": np.array([0x3F80], np.uint16),
    }
    with Client(url) as client:
        outputs = client.infer("m", inputs, ["a", "text"], version="3", datatypes={"bits": "BF16"})
    assert outputs.keys() == inputs.keys()
    for name, array in inputs.items():
        assert outputs[name].shape == array.shape
        np.testing.assert_array_equal(outputs[name], array)


def test_typed_contents_of_other_servers_are_read(served: tuple[Scripted, str]) -> None:
    script, url = served
    script.infer = lambda request, context: pb.ModelInferResponse(
        outputs=[{"name": "y", "datatype": "FP32", "shape": [1, 2], "contents": {"fp32_contents": [1.5, 2.5]}}]
    )
    with Client(url) as client:
        assert client.infer("m", ONE)["y"].tolist() == [[1.5, 2.5]]


@pytest.mark.parametrize(
    ("response", "words"),
    [
        (
            {"outputs": [{"name": "y", "datatype": "FP32", "shape": [2]}], "raw_output_contents": [b"1234"]},
            "has 4 bytes",
        ),
        ({"outputs": [{"name": "y", "datatype": "FP99", "shape": [2]}], "raw_output_contents": [b""]}, "'FP99'"),
        (
            {"outputs": [{"name": "y", "datatype": "FP32", "shape": [-1]}], "raw_output_contents": [b""]},
            "negative size",
        ),
        ({"outputs": [{"name": "y", "datatype": "FP32", "shape": [2]}]}, "0 elements in fp32_contents, expected 2"),
        ({"raw_output_contents": [b""]}, "0 outputs with 1 raw contents"),
    ],
)
def test_answers_that_make_no_sense_are_errors(
    served: tuple[Scripted, str], response: dict[str, Any], words: str
) -> None:
    script, url = served
    script.infer = lambda request, context: pb.ModelInferResponse(**response)
    with Client(url) as client, pytest.raises(ClientError, match=words):
        client.infer("m", ONE)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, "answered INVALID_ARGUMENT: the reason"),
        (grpc.StatusCode.INTERNAL, "answered INTERNAL: the reason"),
        (grpc.StatusCode.UNAVAILABLE, "is not ready for this request: the reason; try again later"),
        (grpc.StatusCode.UNIMPLEMENTED, "does not offer this call: the reason; is it a server of the Open Inference"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "has no room for this request: the reason; send smaller batches"),
        (grpc.StatusCode.NOT_FOUND, "does not serve 'm': the reason$"),
    ],
)
def test_refusals_keep_the_servers_reason(served: tuple[Scripted, str], code: grpc.StatusCode, words: str) -> None:
    script, url = served
    script.infer = aborting(code, "the\n reason.")
    with Client(url) as client, pytest.raises(RequestRefusedError, match=words):
        client.infer("m", ONE)


@pytest.mark.parametrize("source", ["index", "statistics"])
def test_an_unknown_model_comes_with_the_known_ones(served: tuple[Scripted, str], source: str) -> None:
    script, url = served
    script.infer = aborting(grpc.StatusCode.NOT_FOUND, "no such model")
    setattr(script, source, ["owl", "cat"])
    with Client(url) as client, pytest.raises(RequestRefusedError, match=r"no such model; it has cat, owl$"):
        client.infer("m", ONE)


def test_known_models_are_not_told_twice(served: tuple[Scripted, str]) -> None:
    script, url = served
    script.infer = aborting(grpc.StatusCode.NOT_FOUND, "unknown; there are owl and cat")
    script.index = ["owl", "cat"]
    with Client(url) as client, pytest.raises(RequestRefusedError, match=r"there are owl and cat$"):
        client.infer("m", ONE)


def test_a_missing_answer_is_a_timeout(served: tuple[Scripted, str]) -> None:
    script, url = served
    release = threading.Event()

    def wait(request: pb.ModelInferRequest, context: grpc.ServicerContext) -> pb.ModelInferResponse:
        release.wait(20)
        return pb.ModelInferResponse()

    script.infer = wait
    with Client(url, 0.2) as client:
        with pytest.raises(AnswerTimeoutError, match=r"gave no answer within 0\.2 s; raise --timeout"):
            client.infer("m", ONE)
        release.set()


def test_dtypes_without_a_type_in_the_protocol_are_refused() -> None:
    with Client("h:1") as client, pytest.raises(SettingsError, match="input 'x' has the dtype complex128"):
        client.infer("m", {"x": np.ones(1, complex)})


def test_threads_share_a_client_without_mixing_answers(served: tuple[Scripted, str]) -> None:
    script, url = served

    def double(request: pb.ModelInferRequest, context: grpc.ServicerContext) -> pb.ModelInferResponse:
        value = np.frombuffer(request.raw_input_contents[0], "<f4") * 2
        return pb.ModelInferResponse(
            outputs=[{"name": "y", "datatype": "FP32", "shape": [1]}], raw_output_contents=[value.tobytes()]
        )

    script.infer = double
    with Client(url) as client, ThreadPoolExecutor(8) as pool:
        answers = pool.map(lambda k: client.infer("m", {"x": np.array([k], np.float32)})["y"].item(), range(64))
        assert [*answers] == [2 * k for k in range(64)]


@given(st.text(max_size=60), st.sampled_from(list(grpc.StatusCode)))
def test_any_status_becomes_one_line(details: str, code: grpc.StatusCode) -> None:
    class Failed:
        def code(self) -> grpc.StatusCode:
            return code

        def details(self) -> str:
            return details

    message = str(translate(Failed(), url="h:1", timeout=1.0, model="m"))
    assert "h:1" in message
    assert len(message.splitlines()) == 1


def test_many_models_are_listed_once() -> None:
    class Call:
        def __init__(self, details: str) -> None:
            self._details = details

        def code(self) -> grpc.StatusCode:
            return grpc.StatusCode.NOT_FOUND

        def details(self) -> str:
            return self._details

    known = [f"model-{number:02}" for number in range(30)]

    def said(details: str) -> str:
        return str(translate(Call(details), url="u", timeout=1, model="nope", known=known))  # type: ignore[arg-type]

    ours = said(f"there is no model 'nope'; the server has {', '.join(known[:20])} and 10 more")
    assert ours.count("model-07") == 1
    foreign = said("Request for unknown model: 'nope' is not found")
    assert foreign.endswith("; it has " + ", ".join(known[:20]) + " and 10 more")

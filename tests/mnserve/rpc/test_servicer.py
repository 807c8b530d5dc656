"""The calls over a real connection in this process, with engines that can be held: what is counted, and where."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from mnserve.codec.decoding import CheckedRequest
from mnserve.engines.fake import FakeEngine
from mnserve.errors import EngineRunError
from mnserve.models.loading import LoadOptions
from mnserve.models.registry import Models
from mnserve.models.statistics import ModelCounters
from mnserve.protocol import service_pb2 as pb
from mnserve.protocol.service_pb2_grpc import GRPCInferenceServiceStub, add_GRPCInferenceServiceServicer_to_server
from mnserve.rpc import inference
from mnserve.rpc.servicer import Servicer
from mnserve.rpc.services import Services
from mnserve.rpc.streaming import StreamedRequest

WriteModel = Callable[..., Path]
INFER = "/inference.GRPCInferenceService/ModelInfer"


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


class Serving:
    """A served model ``m`` and a connection to it."""

    def __init__(self, models: Models, channel: grpc.aio.Channel) -> None:
        self.models = models
        self.channel = channel
        self.stub: Any = GRPCInferenceServiceStub(channel)  # type: ignore[arg-type]

    @property
    def counters(self) -> ModelCounters:
        return self.models.find("m").counters

    def failures(self) -> dict[str, int]:
        return {reason: duration.count for reason, duration in self.counters.failure.items() if duration.count}


@asynccontextmanager
async def serving(root: Path, engine: FakeEngine, max_message_bytes: int | None = None) -> AsyncIterator[Serving]:
    models = Models(root, LoadOptions(warm_up=False, factory=lambda path, options: engine))
    await models.load_all()
    unlimited = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    server = grpc.aio.server(options=unlimited)
    Services(server).add(add_GRPCInferenceServiceServicer_to_server, Servicer(models, max_message_bytes))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=unlimited) as channel:
        yield Serving(models, channel)
    assert await models.drain(20)
    await server.stop(None)


def request(width: int = 2, **fields: Any) -> pb.ModelInferRequest:
    message = pb.ModelInferRequest(model_name="m", **fields)
    message.inputs.add(name="x", datatype="FP32", shape=[1, width])
    message.raw_input_contents.append(np.ones(width, "<f4").tobytes())
    return message


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


async def one_running_and_one_waiting(server: Serving, engine: FakeEngine) -> list[Any]:
    """Two calls, one after the other; together they might share a batch."""
    running = server.stub.ModelInfer(request())
    await until(engine.started.is_set)
    waiting = server.stub.ModelInfer(request())
    await until(lambda: server.counters.pending() == 1)
    return [running, waiting]


async def failing(call: Any) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value


async def test_large_tensors_keep_off_the_event_loop(
    repository: Path, double_model: WriteModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decoding and encoding a large message would hold up every other call; for a small one a thread costs more."""
    threads: list[tuple[str, bool]] = []

    def spy(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **fields: Any) -> Any:
            threads.append((name, threading.current_thread() is threading.main_thread()))
            return function(*args, **fields)

        return call

    monkeypatch.setattr(CheckedRequest, "decode", spy("decode", CheckedRequest.decode))
    monkeypatch.setattr(inference, "encode_response", spy("encode", inference.encode_response))
    double_model("m", width="n")
    async with serving(repository, FakeEngine()) as server:
        for width, inline in ((1000, True), (1_000_000, False)):
            threads.clear()
            answer = await server.stub.ModelInfer(request(width))
            assert np.frombuffer(answer.raw_output_contents[0], "<f4").tolist() == [2.0] * width
            assert threads == [("decode", inline), ("encode", inline)]


async def test_an_answer_over_the_limit_is_a_failure(
    repository: Path, double_model: WriteModel, caplog: pytest.LogCaptureFixture
) -> None:
    double_model("m", width="n")
    async with serving(repository, FakeEngine(), max_message_bytes=2000) as server:
        error = await failing(server.stub.ModelInfer(request(1000)))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "4000 bytes, more than the limit of 2000" in str(error.details())
        assert (server.counters.success.count, server.failures()) == (0, {"OTHER": 1})
        await server.stub.ModelInfer(request(400))
        assert server.counters.success.count == 1
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("data", [b"\xff" * 100, b"\x0a\x02\xff\xfe"], ids=["no message", "a name that is no text"])
async def test_a_message_that_does_not_parse_is_refused_without_a_traceback(
    repository: Path, double_model: WriteModel, caplog: pytest.LogCaptureFixture, data: bytes
) -> None:
    double_model("m")
    async with serving(repository, FakeEngine()) as server:
        error = await failing(server.channel.unary_unary(INFER)(data))
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert error.details() == "the message is not a valid ModelInferRequest"
        assert (await server.stub.ServerLive(pb.ServerLiveRequest())).live
    assert caplog.records == []


@pytest.mark.parametrize("name", ["m", "unknown"])
async def test_the_id_that_an_answer_repeats_counts_as_memory_of_its_stream(
    name: str, repository: Path, double_model: WriteModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[int] = []
    monkeypatch.setattr(StreamedRequest, "answered", lambda _, nbytes: noted.append(nbytes))
    double_model("m")
    async with serving(repository, FakeEngine()) as server:
        message = request(id="x" * 100_000)
        message.model_name = name
        answer = await server.stub.ModelStreamInfer(iter([message])).read()
    assert answer.infer_response.id == message.id
    assert bool(answer.error_message) == (name == "unknown")
    assert noted[0] >= 100_000


async def test_a_message_of_too_many_fields_is_refused(repository: Path, double_model: WriteModel) -> None:
    """Each takes two bytes on the wire and some ninety in memory."""
    double_model("m")
    async with serving(repository, FakeEngine()) as server:
        error = await failing(server.channel.unary_unary(INFER)(b"\x2a\x00" * 600_000))
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "has more than 65536 fields" in str(error.details())


async def test_a_full_queue_refuses_before_anything_is_decoded(
    repository: Path, double_model: WriteModel, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    double_model(
        "m",
        width="n",
        config="max_batch_size: 1 dynamic_batching { default_queue_policy { max_queue_size: 1 } }",
    )
    engine = FakeEngine(gate=gate)
    async with serving(repository, engine) as server:
        calls = await one_running_and_one_waiting(server, engine)
        monkeypatch.setattr(CheckedRequest, "decode", lambda _: pytest.fail("decoded"))
        error = await failing(server.stub.ModelInfer(request()))
        assert error.code() is grpc.StatusCode.UNAVAILABLE
        assert server.failures() == {"REJECTED": 1}
        gate.set()
        for call in calls:
            await call


async def test_callers_that_leave_are_counted(
    repository: Path, double_model: WriteModel, gate: threading.Event
) -> None:
    double_model("m", width="n")
    engine = FakeEngine(gate=gate)
    async with serving(repository, engine) as server:
        running, waiting = await one_running_and_one_waiting(server, engine)
        waiting.cancel()
        await until(lambda: server.failures() == {"CANCELED": 1})
        running.cancel()
        await until(lambda: server.failures() == {"CANCELED": 2})
        gate.set()
        await server.stub.ModelInfer(request())
        assert (server.counters.success.count, server.failures()) == (1, {"CANCELED": 2})


async def test_every_version_that_answers_is_listed(repository: Path, double_model: WriteModel) -> None:
    double_model("m", config="version_policy { all {} }", width="n")
    double_model("m", version=3, width="n")
    async with serving(repository, FakeEngine()) as server:
        metadata = await server.stub.ModelMetadata(pb.ModelMetadataRequest(name="m"))
        assert list(metadata.versions) == ["1", "3"]
        assert (await server.stub.ModelInfer(request())).model_version == "3"


async def test_details_that_are_no_text_still_end_the_call(repository: Path, double_model: WriteModel) -> None:
    def fail(feeds: Any) -> Any:
        raise EngineRunError("a file called \udcff")

    double_model("m", width="n")
    async with serving(repository, FakeEngine(function=fail)) as server:
        error = await failing(server.stub.ModelInfer(request(), timeout=20))
        assert error.code() is grpc.StatusCode.INTERNAL
        assert "a file called \\udcff" in str(error.details())


def with_parameters(**parameters: int) -> pb.ModelInferRequest:
    message = request()
    for name, value in parameters.items():
        message.parameters[name].uint64_param = value
    return message


async def test_a_request_that_waits_longer_than_its_policy_lets_it_is_unavailable(
    repository: Path, double_model: WriteModel, gate: threading.Event
) -> None:
    policy = "default_timeout_microseconds: 60000000 allow_timeout_override: true"
    double_model("m", width="n", config=f"max_batch_size: 4 dynamic_batching {{ default_queue_policy {{ {policy} }} }}")
    engine = FakeEngine(gate=gate)
    async with serving(repository, engine) as server:
        running = server.stub.ModelInfer(request())
        await until(engine.started.is_set)
        error = await failing(server.stub.ModelInfer(with_parameters(timeout=20_000)))
        assert error.code() is grpc.StatusCode.UNAVAILABLE
        assert "Request timeout expired" in str(error.details())
        assert ("grpc-retry-pushback-ms", "100") in list(error.trailing_metadata() or ())
        assert server.failures() == {"REJECTED": 1}
        gate.set()
        await running


async def test_a_request_of_higher_priority_runs_first(
    repository: Path, double_model: WriteModel, gate: threading.Event
) -> None:
    levels = "dynamic_batching { priority_levels: 2 default_priority_level: 2 }"
    double_model("m", width="n", config=f"max_batch_size: 1 {levels}")
    engine = FakeEngine(gate=gate)
    async with serving(repository, engine) as server:
        running, waiting = await one_running_and_one_waiting(server, engine)
        first = server.stub.ModelInfer(with_parameters(priority=1))
        await until(lambda: server.counters.pending() == 2)
        order: list[str] = []
        waiting.add_done_callback(lambda _: order.append("default"))
        first.add_done_callback(lambda _: order.append("first"))
        error = await failing(server.stub.ModelInfer(with_parameters(priority=3)))
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
        gate.set()
        await asyncio.gather(running, waiting, first)
        await until(lambda: len(order) == 2)
        assert order == ["first", "default"]

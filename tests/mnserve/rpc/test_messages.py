"""Parsing of messages, and what is left of a message after its call."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import traceback
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from mnserve.engines.fake import FakeEngine
from mnserve.errors import EngineRunError, InvalidRequestError, MnServeError, UnknownModelError
from mnserve.models.loading import LoadOptions
from mnserve.models.registry import Models
from mnserve.protocol import service_pb2 as pb
from mnserve.protocol.service_pb2_grpc import GRPCInferenceServiceStub, add_GRPCInferenceServiceServicer_to_server
from mnserve.rpc import messages
from mnserve.rpc.heap_trimming import HeapTrimming
from mnserve.rpc.messages import LIMITS, LargeMessages, Parser, checked
from mnserve.rpc.servicer import Servicer
from mnserve.rpc.services import Services
from mnserve.rpc.wire import ElementLimits

WriteModel = Callable[..., Path]


class Held:
    """In place of a large message: an object whose end can be seen."""


@pytest.fixture
def no_collection(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is freed in the test is freed because nothing holds it; pytest would keep the records of the log."""
    monkeypatch.setattr(logging.getLogger("mnserve"), "propagate", False)
    monkeypatch.setattr(logging.getLogger("mnserve.failing"), "disabled", True)
    gc.collect()
    gc.disable()
    yield
    gc.enable()


# Calls -----------------------------------------------------------------------------------------------------------


async def _own_error(context: Any) -> None:
    raise UnknownModelError("no such model")


async def _error_of_an_error(context: Any) -> None:
    try:
        raise ValueError("first")
    except ValueError as error:
        raise EngineRunError("second") from error


async def _bug(context: Any) -> None:
    raise ZeroDivisionError("a bug of ours")


async def _status(context: Any) -> None:
    try:
        raise KeyError("name")
    except KeyError:
        await context.abort(grpc.StatusCode.NOT_FOUND, "gone")


async def _held_by_a_future(context: Any) -> None:
    future = asyncio.get_running_loop().create_future()
    future.set_exception(InvalidRequestError("late"))
    await future


async def _never(context: Any) -> None:
    await asyncio.sleep(600)


ENDS = {
    _own_error: grpc.StatusCode.NOT_FOUND,
    _error_of_an_error: grpc.StatusCode.INTERNAL,
    _bug: grpc.StatusCode.INTERNAL,
    _status: grpc.StatusCode.NOT_FOUND,
    _held_by_a_future: grpc.StatusCode.INVALID_ARGUMENT,
    _never: grpc.StatusCode.DEADLINE_EXCEEDED,
}


@asynccontextmanager
async def served(handler: Any, shared: LargeMessages | None = None) -> AsyncIterator[grpc.aio.Channel]:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("m", {"call": checked(handler, shared or LargeMessages())}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield channel
    await server.stop(None)


async def freed(held: weakref.ref[Held]) -> None:
    async with asyncio.timeout(5):
        while held() is not None:
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("kind", ["unary", "answers", "stream"])
@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
async def test_nothing_of_a_message_stays_after_an_error(
    end: Callable[[Any], Awaitable[None]], kind: str, no_collection: None
) -> None:
    """Without the collector of cycles, which runs late: large messages are few objects."""
    seen: list[weakref.ref[Held]] = []

    async def fails(context: Any) -> None:
        held = Held()
        seen.append(weakref.ref(held))
        await end(context)

    async def unary(request: Any, context: Any) -> None:
        await fails(context)

    async def stream(requests: Any, context: Any) -> None:
        async for _ in requests:
            await fails(context)

    parse, write = pb.ModelInferRequest.FromString, pb.ModelInferResponse.SerializeToString
    handlers = {
        "unary": lambda: grpc.unary_unary_rpc_method_handler(unary, parse, write),
        "answers": lambda: grpc.unary_stream_rpc_method_handler(unary, parse, write),
        "stream": lambda: grpc.stream_stream_rpc_method_handler(stream, parse, write),
    }
    async with served(handlers[kind]()) as channel:
        timeout = 0.2 if end is _never else 20
        call: Any
        if kind in ("unary", "answers"):
            call = channel.unary_stream("/m/call")(b"", timeout=timeout)
        else:
            call = channel.stream_stream("/m/call")(iter([b""]), timeout=timeout)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() is ENDS[end]
        await freed(seen[0])


async def test_memory_goes_back_after_the_messages_of_a_stream_are_done_with() -> None:
    """Not half a second after they arrived: their elements may be counted, or their models run, for longer."""
    events: list[str] = []

    class Heap(HeapTrimming):
        def ended(self, nbytes: int) -> None:
            events.append(f"{nbytes} bytes")

    async def stream(requests: Any, context: Any) -> None:
        async for request in requests:
            events.append(f"took {request.id}")  # noqa: PERF401 (in its order among the others)
        events.append("worked")

    sent = [pb.ModelInferRequest(id="a" * length) for length in (10, 300)]
    handler = grpc.stream_stream_rpc_method_handler(stream, pb.ModelInferRequest.FromString)
    async with served(handler, LargeMessages(heap=Heap())) as channel:
        call: Any = channel.stream_stream("/m/call", pb.ModelInferRequest.SerializeToString)(iter(sent))
        assert await call.read() is grpc.aio.EOF
    small, large = (f"{message.ByteSize()} bytes" for message in sent)
    assert events == [f"took {sent[0].id}", small, f"took {sent[1].id}", large, "worked", large]


# Models ----------------------------------------------------------------------------------------------------------


def request(*values: float, **fields: Any) -> pb.ModelInferRequest:
    message = pb.ModelInferRequest(**{"model_name": "m", **fields})
    message.inputs.add(name="x", datatype="FP32", shape=[1, 4])
    message.raw_input_contents.append(np.array(values, "<f4").tobytes())
    return message


def _fail(feeds: Any) -> Any:
    raise RuntimeError("the engine fails")


def living_errors() -> list[BaseException]:
    kinds = (MnServeError, RuntimeError, grpc.aio.AbortError)
    return [one for one in gc.get_objects() if issubclass(type(one), kinds)]  # isinstance would ask lazy modules


def held_by(errors: list[BaseException]) -> list[object]:
    """Lists what the frames of errors hold, beside what the handler of a method has anyway."""
    frames = [frame for error in errors for frame, _ in traceback.walk_tb(error.__traceback__)]
    values = [value for frame in frames for value in frame.f_locals.values()]
    return [
        value
        for value in values
        if not (value is None or callable(value) or isinstance(value, (Parser, HeapTrimming, int)))
    ]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("message", "words"),
    [
        (request(1, 2, 3, 4, model_name="other"), "other"),
        (request(1, 2, 3), "12 bytes"),
        (request(1, 2, 3, float("nan")), "NaN"),
        (request(1, 2, 3, 4), "internal error"),
        (pb.ModelInferRequest(model_name="m"), "missing"),
    ],
    ids=["unknown", "size", "value", "engine", "layout"],
)
async def test_no_refusal_keeps_its_frames(
    message: pb.ModelInferRequest,
    words: str,
    streamed: bool,
    repository: Path,
    double_model: WriteModel,
    no_collection: None,
) -> None:
    before = living_errors()
    double_model("m", config='parameters { key: "allow_non_finite" value { string_value: "false" } }')
    models = Models(repository, LoadOptions(warm_up=False, factory=lambda *_: FakeEngine(function=_fail)))
    await models.load_all()
    server = grpc.aio.server()
    Services(server).add(add_GRPCInferenceServiceServicer_to_server, Servicer(models))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub: Any = GRPCInferenceServiceStub(channel)  # type: ignore[arg-type]
        if streamed:
            assert words in (await stub.ModelStreamInfer(iter([message])).read()).error_message
        else:
            with pytest.raises(grpc.aio.AioRpcError, match=words):
                await stub.ModelInfer(message)
        async with asyncio.timeout(5):
            while held_by([error for error in living_errors() if not any(error is one for one in before)]):
                await asyncio.sleep(0.01)
    assert await models.drain(20)
    await server.stop(None)


# Parsing ---------------------------------------------------------------------------------------------------------


def tensor(**contents: Any) -> bytes:
    message = pb.ModelInferRequest()
    message.inputs.add(name="x", contents=pb.InferTensorContents(**contents))
    return message.SerializeToString()


def text_parameter(text: str) -> dict[str, pb.InferParameter]:
    return {"p": pb.InferParameter(string_param=text)}


FEW = ElementLimits(fields=40_000, values=50_000, numbers=300_000, texts=300_000)
MANY = {
    "parameters": b"\x22\x00" * 40_001,
    "inputs": b"\x2a\x00" * 40_001,
    "outputs": b"\x32\x00" * 40_001,
    "parameters of an input": b"\x2a\x84\xe2\x09" + b"\x22\x00" * 80_002,
    "raw contents": b"\x3a\x00" * 40_001,
    "strings": tensor(bytes_contents=[b""] * 50_001),
    "numbers that are not packed": b"\x2a\xa6\x8d\x06\x2a\xa2\x8d\x06" + b"\x18\x00" * 50_001,
    "numbers": tensor(int64_contents=[0] * 300_001),
    "id": pb.ModelInferRequest(id="x" * 300_001).SerializeToString(),
    "text of a parameter": request(1, 2, 3, 4, parameters=text_parameter("x" * 300_001)).SerializeToString(),
    "field that the message does not have": b"\x7a\xe1\xa7\x12" + bytes(300_001),
}


@pytest.mark.parametrize("data", MANY.values(), ids=MANY)
async def test_too_many_elements_are_refused_before_they_are_parsed(
    data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    parser = Parser(pb.ModelInferRequest.FromString, LargeMessages())
    pb.ModelInferRequest.FromString(data)
    monkeypatch.setattr(messages, "LIMITS", FEW)
    monkeypatch.setattr(parser, "_parse", lambda data: pytest.fail("it was parsed"))
    with pytest.raises(InvalidRequestError, match=r"the ModelInferRequest has more than \d+ .*; send"):
        await parser.parse(data)


async def test_tensors_within_the_limits_are_parsed() -> None:
    parser = Parser(pb.ModelInferRequest.FromString, LargeMessages())
    for contents in ({"bytes_contents": [b"x"] * 2**20}, {"int64_contents": [7] * LIMITS.numbers}):
        data = tensor(**contents)
        assert (await parser.parse(data)).SerializeToString() == data


async def test_large_messages_are_parsed_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    parser = Parser(pb.ModelInferRequest.FromString, LargeMessages())
    threads: list[threading.Thread] = []
    monkeypatch.setattr(parser, "_parse", lambda data: threads.append(threading.current_thread()))
    plain = pb.ModelInferRequest(raw_input_contents=[bytes(2**19)]).SerializeToString()
    many_elements = b"\x3a\x00" * 50_000
    large = pb.ModelInferRequest(raw_input_contents=[bytes(2**20 + 1)]).SerializeToString()
    for data in (b"", plain, many_elements, large):
        await parser.parse(data)
    assert [thread is threading.main_thread() for thread in threads] == [True, True, False, False]


async def test_one_message_at_a_time_is_counted_and_plain_ones_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = LargeMessages()
    parser = Parser(pb.ModelInferRequest.FromString, shared)
    many_elements = b"\x3a\x00" * 50_000
    plain = pb.ModelInferRequest(raw_input_contents=[bytes(2**21)]).SerializeToString()
    async with shared.turn:
        counted = asyncio.ensure_future(parser.parse(many_elements))
        assert (await parser.parse(plain)).SerializeToString() == plain
        assert not counted.done()
    assert (await counted).SerializeToString() == many_elements


@pytest.mark.parametrize("size", [100, 2**17, 2**20 + 1])
async def test_bytes_that_are_no_message_are_refused_at_every_size(size: int) -> None:
    parser = Parser(pb.ModelInferRequest.FromString, LargeMessages())
    with pytest.raises(InvalidRequestError, match="the message is not a valid ModelInferRequest"):
        await parser.parse(pb.ModelInferRequest(raw_input_contents=[bytes(size)]).SerializeToString() + b"\xff")


async def test_a_stream_that_waits_holds_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[weakref.ref[Held]] = []

    def parse(self: Parser, data: bytes) -> Held:
        held = Held()
        seen.append(weakref.ref(held))
        return held

    async def call(requests: Any, context: Any) -> None:
        async for message in requests:
            assert isinstance(message, Held)
            del message
            await context.write(pb.ModelInferResponse())

    monkeypatch.setattr(messages.Parser, "parse_small", parse)
    handler: Any = grpc.stream_stream_rpc_method_handler(
        call, pb.ModelInferRequest.FromString, pb.ModelInferResponse.SerializeToString
    )
    async with served(handler) as channel:
        stream = channel.stream_stream("/m/call")()
        await stream.write(b"")
        await stream.read()
        await freed(seen[0])
        stream.cancel()

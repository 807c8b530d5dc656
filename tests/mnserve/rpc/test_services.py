"""Registration of generated services at a server of grpc.aio."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from mnserve.models.loading import LoadOptions
from mnserve.models.registry import Models
from mnserve.protocol import service_pb2
from mnserve.protocol.service_pb2_grpc import add_GRPCInferenceServiceServicer_to_server
from mnserve.rpc.health import Health
from mnserve.rpc.servicer import Servicer
from mnserve.rpc.services import PROBES, Services

METHODS = {
    f"/{service.full_name}/{method.name}"
    for service in (
        service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"],
        health_pb2.DESCRIPTOR.services_by_name["Health"],
    )
    for method in service.methods
}


class Recorder:
    """In place of a server."""

    def __init__(self) -> None:
        self.generic: list[grpc.GenericRpcHandler] = []
        self.registered: dict[str, Any] = {}

    def add_generic_rpc_handlers(self, handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        self.generic += handlers

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        self.registered |= {f"/{service}/{name}": handler for name, handler in handlers.items()}


class Details:
    """Of a call."""

    invocation_metadata = ()

    def __init__(self, method: str) -> None:
        self.method = method


class Ended:
    """Context of a call that is ended."""

    code: grpc.StatusCode | None = None

    async def abort(self, code: grpc.StatusCode, details: str, trailing: Any = ()) -> None:
        self.code = code
        raise RuntimeError(details)


def recorded() -> Recorder:
    recorder = Recorder()
    services = Services(recorder)  # type: ignore[arg-type]
    models = Models(Path("nowhere"), LoadOptions())
    services.add(add_GRPCInferenceServiceServicer_to_server, Servicer(models))
    Health(models).add_to(services)
    return recorder


def handlers_of(method: str, recorder: Recorder) -> list[Any]:
    handlers = [generic.service(Details(method)) for generic in recorder.generic]
    return [handler for handler in handlers if handler is not None]


def test_only_probes_have_a_queue_of_their_own() -> None:
    recorder = recorded()
    assert recorder.registered.keys() == PROBES
    assert PROBES < METHODS


async def test_every_method_is_found() -> None:
    recorder = recorded()
    for method in METHODS:
        handlers = handlers_of(method, recorder)
        assert len(handlers) == 1
        assert handlers_of(method, recorder) == handlers  # kept, not made again
    assert [generic.service(Details("/inference.GRPCInferenceService/Nothing")) for generic in recorder.generic] == [
        None,
        None,
    ]
    assert not any(generic._handlers.keys() - METHODS for generic in recorder.generic)  # type: ignore[attr-defined]


LARGE = {"ModelInfer", "ModelStreamInfer", "RepositoryModelLoad"}


async def test_messages_of_small_calls_are_left_unread_until_there_is_a_place() -> None:
    """gRPC receives the message of a call that is no stream before it asks us."""
    recorder = recorded()
    for method in METHODS:
        handlers = [*handlers_of(method, recorder), *(recorder.registered[method] for _ in [0] if method in PROBES)]
        for handler in handlers:
            assert handler.request_deserializer is None
            if method.rpartition("/")[2] not in LARGE:
                assert handler.request_streaming
            elif not handler.request_streaming:
                context = Ended()
                with pytest.raises(RuntimeError, match="the message is not a valid"):
                    await handler.unary_unary(b"\x0f", context)
                assert context.code is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_message_to_reflection_that_does_not_parse_is_refused(
    serve: Callable[..., Awaitable[str]],
    repository: Path,
    double_model: Callable[..., Path],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Messages before it are answered."""
    double_model("m")
    address = (await serve()).removeprefix("grpc://")
    good = reflection_pb2.ServerReflectionRequest(list_services="").SerializeToString()
    async with grpc.aio.insecure_channel(address) as channel:
        ask = channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
        call = ask(iter([good, b"\xff" * 10]))
        answer = reflection_pb2.ServerReflectionResponse.FromString(await call.read())
        assert answer.list_services_response.service
        with pytest.raises(grpc.aio.AioRpcError, match="the message is not a valid ServerReflectionRequest"):
            await call.read()
        assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "Traceback" not in caplog.text

"""Bearer tokens at a real server: which call needs which."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from tritonclient.utils import InferenceServerException

from mnserve.access.authorization import INFERENCE, PUBLIC, right_for
from mnserve.access.settings import SecuritySettings
from mnserve.errors import CredentialsError, SettingsError
from mnserve.protocol import service_pb2 as pb
from mnserve.protocol.service_pb2_grpc import GRPCInferenceServiceStub
from mnserve.settings import ServeSettings

Serve = Callable[..., Awaitable[str]]
WriteTokens = Callable[[str], str]
CODE = grpc.StatusCode
INFER, CONTROL, STRANGER = "infer-0123456789", "control-0123456789", "stranger-0123456789"
SERVICE = pb.DESCRIPTOR.services_by_name["GRPCInferenceService"]


@pytest.fixture
async def address(serve: Serve, token_file: WriteTokens, double_model: Callable[..., Path]) -> str:
    """A server with two tokens and a model that callers may load and unload."""
    double_model("m")
    security = SecuritySettings(token_file=token_file(f"{INFER}\n{CONTROL} control\n"))
    started = await serve(security=security, model_control="explicit", load_model=("m",))
    return started.removeprefix("grpc://")


@pytest.fixture
async def channel(address: str) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(address) as opened:
        yield opened


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


async def status(call: Any) -> grpc.StatusCode:
    """Returns the status of a call of any kind."""
    return await call.code()  # type: ignore[no-any-return]


def test_every_call_is_put_into_one_class() -> None:
    classes: dict[str | None, set[str]] = {None: set(), "infer": set(), "control": set()}
    for method in SERVICE.methods:
        classes[right_for(f"/{SERVICE.full_name}/{method.name}")].add(method.name)
    assert classes[None] == {"ServerLive", "ServerReady"}
    assert classes["control"] == {
        "RepositoryModelLoad",
        "RepositoryModelUnload",
        "TraceSetting",
        "LogSettings",
        *(f"{kind}SharedMemory{what}" for kind in ("System", "Cuda") for what in ("Status", "Register", "Unregister")),
    }
    assert {f"/{SERVICE.full_name}/{name}" for name in classes["infer"]} == INFERENCE
    assert not INFERENCE & PUBLIC
    assert right_for(f"/{SERVICE.full_name}/SomethingNew") == "control"
    assert right_for("/grpc.health.v1.Health/List") == "infer"  # it tells the names of the models


async def test_tokens_of_a_client_of_triton_are_accepted(address: str) -> None:
    """Triton's client sends its token in its own way; every kind of call is made."""
    image = triton.InferInput("x", [1, 4], "FP32")
    image.set_data_from_numpy(np.ones((1, 4), np.float32))

    def outcome(call: Callable[..., Any], token: str | None) -> str:
        try:
            call(headers=None if token is None else bearer(token), client_timeout=20)
        except InferenceServerException as error:
            return str(error.status()).removeprefix("StatusCode.")
        return "OK"

    def ask() -> dict[str, list[str]]:
        with triton.InferenceServerClient(address) as client:
            calls: dict[str, Callable[..., Any]] = {
                "live": client.is_server_live,
                "ready": client.is_server_ready,
                "infer": lambda **fields: client.infer("m", [image], **fields),
                "index": client.get_model_repository_index,
                "statistics": client.get_inference_statistics,
                "load": lambda **fields: client.load_model("m", **fields),
                "memory": client.get_system_shared_memory_status,
                "trace": client.get_trace_settings,
                "log": client.get_log_settings,
                "unload": lambda **fields: client.unload_model("m", **fields),
            }
            tokens = (None, STRANGER, INFER, CONTROL)
            return {name: [outcome(call, token) for token in tokens] for name, call in calls.items()}

    nobody = ["UNAUTHENTICATED", "UNAUTHENTICATED"]
    assert await asyncio.to_thread(ask) == {
        "live": ["OK"] * 4,
        "ready": ["OK"] * 4,
        "infer": [*nobody, "OK", "OK"],
        "index": [*nobody, "OK", "OK"],
        "statistics": [*nobody, "OK", "OK"],
        "load": [*nobody, "PERMISSION_DENIED", "OK"],
        "memory": [*nobody, "PERMISSION_DENIED", "OK"],
        "trace": [*nobody, "PERMISSION_DENIED", "UNIMPLEMENTED"],
        "log": [*nobody, "PERMISSION_DENIED", "OK"],
        "unload": [*nobody, "PERMISSION_DENIED", "OK"],
    }


async def test_streams_of_a_client_of_triton_need_a_valid_token(address: str) -> None:
    image = triton.InferInput("x", [1, 4], "FP32")
    image.set_data_from_numpy(np.ones((1, 4), np.float32))

    def ask(token: str) -> str:
        answered, answers = threading.Event(), []

        def answer(result: Any, error: Any) -> None:
            answers.append("OK" if error is None else str(error.status()))
            answered.set()

        with triton.InferenceServerClient(address) as client:
            client.start_stream(answer, headers=bearer(token))
            if token == INFER:
                client.async_stream_infer("m", [image])
            assert answered.wait(20)
            client.stop_stream()
        return str(answers[0])

    assert await asyncio.to_thread(ask, INFER) == "OK"
    assert await asyncio.to_thread(ask, STRANGER) == "StatusCode.UNAUTHENTICATED"


async def test_probes_need_no_token_and_reflection_does(channel: grpc.aio.Channel) -> None:
    health = health_pb2_grpc.HealthStub(channel)
    assert await status(health.Check(health_pb2.HealthCheckRequest())) is CODE.OK
    watching = health.Watch(health_pb2.HealthCheckRequest(service="m"))
    assert (await watching.read()).status == health_pb2.HealthCheckResponse.SERVING  # type: ignore[attr-defined]
    watching.cancel()
    reflection = reflection_pb2_grpc.ServerReflectionStub(channel)  # type: ignore[no-untyped-call]
    question = reflection_pb2.ServerReflectionRequest(list_services="")
    assert await status(reflection.ServerReflectionInfo(iter([question]))) is CODE.UNAUTHENTICATED
    allowed = reflection.ServerReflectionInfo(iter([question]), metadata=tuple(bearer(INFER).items()))
    assert len((await allowed.read()).list_services_response.service) == 3


@pytest.mark.parametrize(
    ("metadata", "code", "words"),
    [
        ((), CODE.UNAUTHENTICATED, "the call has no token; send `authorization: Bearer TOKEN` once, as metadata"),
        ((("authorization", f"bearer   {INFER} "),), CODE.OK, ""),
        ((("authorization", INFER),), CODE.UNAUTHENTICATED, "is no bearer token"),
        ((("authorization", f"Basic {INFER}"),), CODE.UNAUTHENTICATED, "is no bearer token"),
        ((("authorization", "Bearer"),), CODE.UNAUTHENTICATED, "is not one of this server's"),
        ((("authorization", f"Bearer {INFER[:-1]}"),), CODE.UNAUTHENTICATED, "is not one of this server's"),
        ((("authorization", f"Bearer {INFER}"),) * 2, CODE.UNAUTHENTICATED, "has more than one token"),
        ((("authorization-bin", f"Bearer {INFER}".encode()),), CODE.UNAUTHENTICATED, "has no token"),
    ],
)
async def test_malformed_authorization_metadata_is_refused(
    channel: grpc.aio.Channel, metadata: tuple[tuple[str, Any], ...], code: grpc.StatusCode, words: str
) -> None:
    stub: Any = GRPCInferenceServiceStub(channel)  # type: ignore[arg-type]
    call = stub.ServerMetadata(pb.ServerMetadataRequest(), metadata=metadata)
    assert await status(call) is code
    details = await call.details()
    assert words in details
    assert INFER[:-1] not in details


async def test_a_refused_call_is_not_remembered(channel: grpc.aio.Channel) -> None:
    stub: Any = GRPCInferenceServiceStub(channel)  # type: ignore[arg-type]
    for token, code in ((STRANGER, CODE.UNAUTHENTICATED), (INFER, CODE.OK), (STRANGER, CODE.UNAUTHENTICATED)):
        call = stub.ServerMetadata(pb.ServerMetadataRequest(), metadata=tuple(bearer(token).items()))
        assert await status(call) is code


async def test_calls_that_fail_are_limited_by_address_and_others_go_on(
    serve: Serve, token_file: WriteTokens, double_model: Callable[..., Path]
) -> None:
    double_model("m")
    security = SecuritySettings(token_file=token_file(INFER))
    address = (await serve(security=security, rate_limit=0.001, rate_burst=3)).removeprefix("grpc://")
    async with grpc.aio.insecure_channel(address) as channel:
        stub: Any = GRPCInferenceServiceStub(channel)  # type: ignore[arg-type]
        codes = []
        for number in range(6):
            metadata = tuple(bearer(f"{STRANGER}{number}").items())
            codes.append(await status(stub.ServerMetadata(pb.ServerMetadataRequest(), metadata=metadata)))
        assert codes == [CODE.UNAUTHENTICATED] * 3 + [CODE.RESOURCE_EXHAUSTED] * 3
        codes = []
        for spelling in ("Bearer ", "bearer ", "BEARER  ", "bEARER   ", "Bearer    "):
            call = stub.ModelInfer(pb.ModelInferRequest(), metadata=(("authorization", spelling + INFER),))
            codes.append(await status(call))
        assert codes == [CODE.NOT_FOUND] * 3 + [CODE.RESOURCE_EXHAUSTED] * 2
        assert (
            await status(stub.ServerMetadata(pb.ServerMetadataRequest(), metadata=tuple(bearer(INFER).items())))
            is CODE.OK
        )


async def test_unknown_calls_need_a_token_too(channel: grpc.aio.Channel) -> None:
    """A tool that tries a newer reflection first goes on with the older one after UNIMPLEMENTED."""
    unknown = channel.unary_unary("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
    assert await status(unknown(b"")) is CODE.UNAUTHENTICATED
    assert await status(unknown(b"", metadata=tuple(bearer(INFER).items()))) is CODE.UNIMPLEMENTED


async def test_no_message_is_read_before_the_token(channel: grpc.aio.Channel) -> None:
    method = f"/{SERVICE.full_name}/ModelInfer"

    async def never() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    assert await status(channel.stream_unary(method)(never(), timeout=20)) is CODE.UNAUTHENTICATED
    assert await status(channel.unary_unary(method)(b"\xff" * 100)) is CODE.UNAUTHENTICATED
    large = bytes(ServeSettings(repository="r").max_message_bytes + 1)
    assert await status(channel.unary_unary(method)(large, timeout=20)) is CODE.UNAUTHENTICATED


async def test_tokens_come_and_go_without_a_restart(
    channel: grpc.aio.Channel, token_file: WriteTokens, caplog: pytest.LogCaptureFixture
) -> None:
    stub: Any = GRPCInferenceServiceStub(channel)  # type: ignore[arg-type]

    async def code(token: str) -> grpc.StatusCode:
        return await status(stub.ServerMetadata(pb.ServerMetadataRequest(), metadata=tuple(bearer(token).items())))

    assert [await code(INFER), await code(STRANGER)] == [CODE.OK, CODE.UNAUTHENTICATED]
    path = token_file(f"{STRANGER}\n")
    assert [await code(INFER), await code(STRANGER)] == [CODE.UNAUTHENTICATED, CODE.OK]
    token_file(f"{INFER}\n{STRANGER} everything\n")
    assert [await code(INFER), await code(STRANGER)] == [CODE.UNAUTHENTICATED, CODE.OK]
    os.unlink(path)
    assert [await code(INFER), await code(STRANGER)] == [CODE.UNAUTHENTICATED, CODE.OK]
    if "MNSERVE_FRONT_ENDS" not in os.environ:  # the server logs in this process
        warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert len(warnings) == 2  # one for each new state, however many calls come
        assert "line 2: a token is followed by" in warnings[0]
        assert "cannot be read: No such file or directory" in warnings[1]
        assert all("what was read before stays in force" in warning for warning in warnings)
        assert STRANGER not in caplog.text
    token_file(f"{INFER}\n")
    assert [await code(INFER), await code(STRANGER)] == [CODE.OK, CODE.UNAUTHENTICATED]


async def test_a_file_without_tokens_stops_the_start(serve: Serve, token_file: WriteTokens) -> None:
    with pytest.raises(CredentialsError, match="has no token"):
        await serve(security=SecuritySettings(token_file=token_file("# nobody yet\n")))


@pytest.mark.parametrize(
    ("host", "fields", "refused"),
    [
        ("0.0.0.0", {}, True),
        ("gpu-box", {}, True),
        ("127.0.0.1", {}, False),
        ("::1", {}, False),
        ("0.0.0.0", {"insecure_tokens": True}, False),
        ("0.0.0.0", {"tls_certificate": "c", "tls_key": "k"}, False),
    ],
)
def test_tokens_do_not_cross_a_network_as_plain_text(host: str, fields: dict[str, Any], refused: bool) -> None:
    def make() -> ServeSettings:
        return ServeSettings(repository="r", host=host, security=SecuritySettings(token_file="tokens", **fields))

    if refused:
        with pytest.raises(SettingsError, match=f"--token-file without TLS on --host {host}: .*or --insecure-tokens"):
            make()
    else:
        make()

"""Tokens at the proxies: nobody is told anything that ``mnserve serve`` would not tell him."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2
from starlette.requests import Request

from mnserve.access.authorization import PUBLIC
from mnserve.distributed.arguments import settings_from_arguments
from mnserve.distributed.calls import HEALTH, HEALTH_CHECK, LIST, PROTOCOL, REPLICAS, UNARY
from mnserve.distributed.router import Router
from mnserve.errors import UnavailableError
from mnserve.protocol import service_pb2 as pb

TOKEN = "correct-horse-battery-staple-01"
GOOD = (("authorization", f"Bearer {TOKEN}"),)
METHODS = (f"/{HEALTH}/{HEALTH_CHECK}", f"/{REPLICAS}/{LIST}", *(f"/{PROTOCOL}/{name}" for name in UNARY))
LIST_METHOD = f"/{REPLICAS}/{LIST}"
UNKNOWN = pb.ModelInferRequest(model_name="nothing").SerializeToString()

Targets = Callable[..., Awaitable[Any]]


@pytest.fixture(params=["replica", "router"])
def target(request: pytest.FixtureRequest, replicas: Any, handle_of: Any, token_file: Callable[[str], str]) -> Targets:
    """What a proxy calls, in a server with tokens: ``await target(rate_limit=1)``."""

    async def make(**options: Any) -> Any:
        options = {"token_file": token_file(f"{TOKEN} infer\n"), "insecure_tokens": True, **options}
        served = await replicas(**options)
        if request.param == "replica":
            return served
        handles = {"double": handle_of(served), "slow": handle_of(served)}
        return Router(handles, settings_from_arguments({"repository": "models", **options}))

    return make


async def status_of(call: Awaitable[Any]) -> tuple[str, str]:
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await call
    return failed.value.code().name, failed.value.details() or ""


async def page(served: Any, *headers: tuple[str, str]) -> tuple[int, Any, dict[str, str]]:
    """Answer to a request of HTTP for the list: status, JSON and headers."""
    head = [(name.lower().encode(), value.encode()) for name, value in headers]
    scope = {"type": "http", "method": "GET", "path": "/", "headers": head, "client": ("10.0.0.1", 40_000)}
    answer = await served(Request(scope))
    return answer.status_code, json.loads(answer.body), dict(answer.headers)


@pytest.mark.parametrize("metadata", [(), (("authorization", "Bearer wrong-horse-battery-staple-01"),)])
async def test_only_probes_are_answered_without_a_token(target: Targets, connect: Any, metadata: Any) -> None:
    channel = await connect(await target())
    for method in METHODS:
        call = channel.unary_unary(method)(b"", metadata=metadata)
        code, words = await call.code(), await call.details()
        assert (code is grpc.StatusCode.UNAUTHENTICATED) == (method not in PUBLIC), (method, code)
        assert "double" not in words


async def test_names_of_models_and_addresses_need_a_token(target: Targets, connect: Any) -> None:
    channel = await connect(await target())
    infer = channel.unary_unary(f"/{PROTOCOL}/ModelInfer")
    code, words = await status_of(infer(UNKNOWN))
    assert (code, "double" in words) == ("UNAUTHENTICATED", False)
    code, words = await status_of(infer(UNKNOWN, metadata=GOOD))
    assert (code, "the server has double" in words) == ("NOT_FOUND", True)
    listed = json.loads(await channel.unary_unary(LIST_METHOD)(b"", metadata=GOOD))["replicas"]
    assert listed[0]["grpc"].startswith("grpc://127.0.0.1:")


async def test_a_stream_needs_a_token_before_its_first_message(target: Targets, connect: Any) -> None:
    channel = await connect(await target())
    stream = channel.stream_stream(f"/{PROTOCOL}/ModelStreamInfer")
    assert (await status_of(stream(iter([UNKNOWN])).read()))[0] == "UNAUTHENTICATED"
    answer = pb.ModelStreamInferResponse.FromString(await stream(iter([UNKNOWN]), metadata=GOOD).read())
    assert "there is no model 'nothing'" in answer.error_message


async def test_http_answers_as_a_server_of_its_own(target: Targets) -> None:
    served = await target()
    status, content, headers = await page(served)
    assert (status, headers["www-authenticate"], headers["content-type"]) == (401, "Bearer", "application/json")
    assert set(content) == {"error"}
    assert "token" in content["error"]
    assert (await page(served, ("Authorization", "Bearer wrong-horse-battery-staple-01")))[0] == 401
    assert (await page(served, ("Authorization", f"Basic {TOKEN}")))[0] == 401
    twice = [("Authorization", f"Bearer {TOKEN}")] * 2
    assert (await page(served, *twice))[0] == 401
    status, content, _ = await page(served, ("Authorization", f"bearer {TOKEN}"))
    assert status == 200
    assert content["replicas"][0]["models"] == ["double", "slow"]


async def test_calls_without_a_token_have_a_rate_for_each_address(target: Targets, connect: Any) -> None:
    served = await target(rate_limit=0.01, rate_burst=2)
    assert [(await page(served))[0] for _ in range(3)] == [401, 401, 429]
    call = (await connect(served)).unary_unary(LIST_METHOD)  # from another address
    codes = [(await status_of(call(b"")))[0] for _ in range(3)]
    assert codes == ["UNAUTHENTICATED", "UNAUTHENTICATED", "RESOURCE_EXHAUSTED"]
    assert await call(b"", metadata=GOOD)


async def test_a_token_that_is_taken_away_opens_nothing(
    target: Targets, connect: Any, token_file: Callable[[str], str]
) -> None:
    call = (await connect(await target())).unary_unary(LIST_METHOD)
    assert await call(b"", metadata=GOOD)
    token_file("another-horse-battery-staple-02\n")
    assert (await status_of(call(b"", metadata=GOOD)))[0] == "UNAUTHENTICATED"


async def test_refused_calls_are_counted(replicas: Any, connect: Any, token_file: Callable[[str], str]) -> None:
    served = await replicas(token_file=token_file(TOKEN), insecure_tokens=True)
    await status_of((await connect(served)).unary_unary(LIST_METHOD)(b""))
    await page(served)
    assert served._server.limits.refused.counts["TOKEN"] == 2


async def test_a_call_that_a_router_hands_over_is_checked_again(
    replicas: Any, token_file: Callable[[str], str]
) -> None:
    served = await replicas(token_file=token_file(TOKEN), insecure_tokens=True)
    _, status = await served.forward("ModelInfer", UNKNOWN, [], "ipv4:10.0.0.1:40000")
    assert status.code == "UNAUTHENTICATED"


async def test_without_a_file_of_tokens_nobody_is_asked(replicas: Any, connect: Any) -> None:
    served = await replicas()
    assert (await page(served))[0] == 200
    assert json.loads(await (await connect(served)).unary_unary(LIST_METHOD)(b""))["replicas"]


async def test_replicas_that_do_not_answer_are_a_status(
    replicas: Any, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = await replicas()

    async def fail(*_args: Any, **_seconds: float) -> list[Any]:
        raise UnavailableError("the replicas did not answer together; try again")

    monkeypatch.setattr(served, "_ask_all", fail)
    status, content, _ = await page(served)
    assert (status, "try again" in content["error"]) == (503, True)
    assert (await status_of((await connect(served)).unary_unary(LIST_METHOD)(b"")))[0] == "UNAVAILABLE"


async def test_probes_of_a_model_need_no_token(target: Targets, connect: Any) -> None:
    check = (await connect(await target())).unary_unary(f"/{HEALTH}/{HEALTH_CHECK}")
    answers = await asyncio.gather(
        *(check(health_pb2.HealthCheckRequest(service=name).SerializeToString()) for name in ("", "double"))
    )
    assert [health_pb2.HealthCheckResponse.FromString(answer).status for answer in answers] == [1, 1]


async def test_messages_have_the_bounds_of_a_server_of_its_own(target: Targets, connect: Any) -> None:
    channel = await connect(await target(max_message_bytes=100_000))
    large = pb.ModelInferRequest(model_name="double", raw_input_contents=[bytes(100_001)]).SerializeToString()
    code, words = await status_of(channel.unary_unary(f"/{PROTOCOL}/ModelInfer")(large, metadata=GOOD))
    assert (code, "at most 100000" in words) == ("RESOURCE_EXHAUSTED", True)
    stream = channel.stream_stream(f"/{PROTOCOL}/ModelStreamInfer")(iter([large]), metadata=GOOD)
    assert (await status_of(stream.read()))[0] == "RESOURCE_EXHAUSTED"
    name = pb.ModelReadyRequest(name="a" * 65_536).SerializeToString()
    assert (await status_of(channel.unary_unary(f"/{PROTOCOL}/ModelReady")(name, metadata=GOOD)))[0] == (
        "RESOURCE_EXHAUSTED"
    )


@pytest.mark.parametrize("many", [b"\xff\xff", b"\x12\x00" * 70_000 + b"\x2a\x00" * 70_000])
async def test_what_is_no_request_is_a_fault_of_the_caller(target: Targets, connect: Any, many: bytes) -> None:
    channel = await connect(await target())
    assert (await status_of(channel.unary_unary(f"/{PROTOCOL}/ModelInfer")(many, metadata=GOOD)))[0] == (
        "INVALID_ARGUMENT"
    )
    stream = channel.stream_stream(f"/{PROTOCOL}/ModelStreamInfer")(iter([UNKNOWN, many]), metadata=GOOD)
    assert pb.ModelStreamInferResponse.FromString(await stream.read()).error_message
    assert (await status_of(stream.read()))[0] == "INVALID_ARGUMENT"

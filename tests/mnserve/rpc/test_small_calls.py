"""Calls without tensors: their places, and the time and size of their messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2

from mnserve.access.call_limits import (
    MAX_REFLECTIONS_OF_CONNECTION,
    MAX_WATCHES_OF_CONNECTION,
    Places,
)
from mnserve.errors import TooManyCallsError
from mnserve.protocol import service_pb2 as pb
from mnserve.protocol.service_pb2_grpc import GRPCInferenceServiceStub
from mnserve.rpc.message_turns import MessageTurns
from mnserve.rpc.small_calls import MAX_BYTES

Serve = Callable[..., Awaitable[str]]
WATCH, CHECK = "/grpc.health.v1.Health/Watch", "/grpc.health.v1.Health/Check"
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
CODE = grpc.StatusCode
OWN_CONNECTION = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1))


@pytest.fixture
async def address(serve: Serve, double_model: Callable[..., Path]) -> str:
    double_model("m")
    return (await serve()).removeprefix("grpc://")


@pytest.fixture
async def channel(address: str) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(address, options=OWN_CONNECTION) as opened:
        yield opened


@pytest.fixture
async def other(address: str) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(address, options=OWN_CONNECTION) as opened:
        yield opened


async def is_live(channel: grpc.aio.Channel) -> bool:
    stub: Any = GRPCInferenceServiceStub(channel)  # type: ignore[arg-type]
    return bool((await stub.ServerLive(pb.ServerLiveRequest(), timeout=20)).live)


def test_places_are_given_back_and_kept_apart_by_connection() -> None:
    places = Places(3, 2, "calls")
    with places.place("a"):
        with (
            places.place("a"),
            pytest.raises(TooManyCallsError, match="this connection has 2 calls in progress"),
            places.place("a"),
        ):
            pass
        with (
            places.place("b"),
            places.place("c"),
            pytest.raises(TooManyCallsError, match="the server has 3 calls"),
            places.place("d"),
        ):
            pass
    assert (places.taken, len(places._taken)) == (0, 0)


async def test_watches_beyond_the_most_are_refused_and_probes_go_on(
    channel: grpc.aio.Channel, other: grpc.aio.Channel
) -> None:
    health: Any = health_pb2_grpc.HealthStub(channel)
    watching = [health.Watch(health_pb2.HealthCheckRequest(service="m")) for _ in range(MAX_WATCHES_OF_CONNECTION)]
    for call in watching:
        await call.read()
    refused = health.Watch(health_pb2.HealthCheckRequest(service="m"))
    assert await refused.code() is CODE.UNAVAILABLE
    assert ("grpc-retry-pushback-ms", "100") in tuple(await refused.trailing_metadata())
    assert await is_live(channel)
    others: Any = health_pb2_grpc.HealthStub(other)
    assert (await others.Watch(health_pb2.HealthCheckRequest(service="m")).read()).status
    watching[0].cancel()
    async with asyncio.timeout(20):
        while await (again := health.Watch(health_pb2.HealthCheckRequest(service="m"))).read() is grpc.aio.EOF:
            await asyncio.sleep(0.01)
    again.cancel()


async def test_streams_of_reflection_beyond_the_most_are_refused(channel: grpc.aio.Channel) -> None:
    ask = channel.stream_stream(REFLECTION)
    question = reflection_pb2.ServerReflectionRequest(list_services="").SerializeToString()
    streams: list[Any] = [ask() for _ in range(MAX_REFLECTIONS_OF_CONNECTION)]
    for stream in streams:
        await stream.write(question)
        assert await stream.read() is not grpc.aio.EOF
    refused: Any = ask()
    assert await refused.code() is CODE.UNAVAILABLE
    assert "streams of reflection in progress" in await refused.details()
    assert await is_live(channel)


@pytest.mark.parametrize(
    "method",
    [CHECK, WATCH, REFLECTION, *(f"/inference.GRPCInferenceService/{name}" for name in ("ServerLive", "ModelReady"))],
)
async def test_messages_over_the_limit_of_a_small_call_are_refused(channel: grpc.aio.Channel, method: str) -> None:
    call: Any = channel.stream_stream(method)(iter([b"\x0a" + bytes(MAX_BYTES)]))
    assert await call.code() is CODE.RESOURCE_EXHAUSTED
    assert f"has {MAX_BYTES + 1} bytes, and this call takes at most {MAX_BYTES}" in await call.details()


@pytest.mark.parametrize("method", [CHECK, WATCH])
async def test_names_that_no_model_can_have_are_not_kept(channel: grpc.aio.Channel, method: str) -> None:
    message = health_pb2.HealthCheckRequest(service="x" * 1025).SerializeToString()
    call: Any = channel.unary_stream(method)(message)
    assert await call.code() is CODE.INVALID_ARGUMENT
    assert "has 1025 characters, more than 1024" in await call.details()


async def test_a_message_that_does_not_come_gives_way_to_those_that_wait() -> None:
    turns = MessageTurns()

    async def never() -> None:
        await asyncio.Event().wait()

    async def at_once() -> str:
        return "message"

    slow = [asyncio.create_task(turns.receive(never, str(number % 5))) for number in range(20)]
    await asyncio.sleep(0)
    async with asyncio.timeout(10):
        assert await turns.receive(at_once, "probe") == "message"
    errors = await asyncio.gather(*slow[:2], return_exceptions=True)
    assert all(isinstance(error, TooManyCallsError) for error in errors)
    assert not slow[-1].done()
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)
    assert not turns._of_connection


async def test_a_call_without_a_message_is_refused(channel: grpc.aio.Channel) -> None:
    call: Any = channel.stream_stream(CHECK)(iter([]))
    assert await call.code() is CODE.INVALID_ARGUMENT
    assert await call.details() == "the call has no message"

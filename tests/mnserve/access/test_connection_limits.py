"""Limits, keepalive and age of connections: as settings, and at a real server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from grpc_health.v1 import health_pb2, health_pb2_grpc

from mnserve.access.connection_limits import TransportSettings
from mnserve.errors import SettingsError

Serve = Callable[..., Awaitable[str]]
PING_MS = 1000
"""gRPC's clients ping no more often, whatever they are told."""


@pytest.fixture
async def address(serve: Serve, double_model: Callable[..., Path], request: pytest.FixtureRequest) -> str:
    double_model("m")
    transport = TransportSettings(**getattr(request, "param", {}))
    return (await serve(transport=transport)).removeprefix("grpc://")


def with_settings(*each: dict[str, Any]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("address", each, indirect=True)


def test_settings_become_options_of_gRPC() -> None:
    given = TransportSettings(
        max_metadata_bytes=9000,
        max_concurrent_streams=3,
        keepalive_time=1.5,
        keepalive_timeout=2,
        keepalive_permit_without_calls=True,
        keepalive_min_ping_interval=0.25,
        max_connection_age=60,
        max_connection_age_grace=5,
    )
    assert dict(given.options) == {
        "grpc.max_metadata_size": 9000,
        "grpc.absolute_max_metadata_size": 9000,
        "grpc.max_concurrent_streams": 3,
        "grpc.http.overload_protection": 0,
        "grpc.keepalive_time_ms": 1500,
        "grpc.keepalive_timeout_ms": 2000,
        "grpc.keepalive_permit_without_calls": 1,
        "grpc.http2.min_ping_interval_without_data_ms": 250,
        "grpc.max_connection_age_ms": 60_000,
        "grpc.max_connection_age_grace_ms": 5000,
    }
    unlimited = dict(TransportSettings().options).keys()
    assert not unlimited & {"grpc.max_concurrent_streams", "grpc.max_connection_age_ms"}


@pytest.mark.parametrize(
    "fields",
    [
        {"max_metadata_bytes": 2047},
        {"max_metadata_bytes": 2**20 + 1},
        {"max_concurrent_streams": -1},
        {"max_concurrent_streams": 2**31},
        {"keepalive_time": 0.0},
        {"keepalive_timeout": float("nan")},
        {"keepalive_min_ping_interval": -1.0},
        {"max_connection_age": 700_000.0},
        {"max_connection_age_grace": 1.0},
        {"max_connection_age": 1.0, "max_connection_age_grace": float("inf")},
    ],
)
def test_invalid_transport_settings_are_refused_by_option(fields: dict[str, Any]) -> None:
    option = "--" + list(fields)[-1].replace("_", "-")
    with pytest.raises(SettingsError, match=f"^{option} is "):
        TransportSettings(**fields)


@with_settings({}, {"max_metadata_bytes": 40_000})
async def test_metadata_is_bounded(address: str, request: pytest.FixtureRequest) -> None:
    limit = TransportSettings(**request.node.callspec.params["address"]).max_metadata_bytes
    async with grpc.aio.insecure_channel(address) as channel:
        health = health_pb2_grpc.HealthStub(channel)

        async def code(size: int) -> grpc.StatusCode:
            call: Any = health.Check(health_pb2.HealthCheckRequest(), metadata=(("x-size", "x" * size),))
            return await call.code()  # type: ignore[no-any-return]

        # Several times: between two different limits, calls are refused at random.
        assert {await code(limit - 1000) for _ in range(5)} == {grpc.StatusCode.OK}
        assert {await code(limit) for _ in range(5)} == {grpc.StatusCode.RESOURCE_EXHAUSTED}


@with_settings({"max_concurrent_streams": 1})
async def test_calls_beyond_the_limit_of_a_connection_wait_at_the_client(address: str) -> None:
    async with grpc.aio.insecure_channel(address) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        watching: Any = health.Watch(health_pb2.HealthCheckRequest())
        await watching.read()
        waiting: Any = health.Check(health_pb2.HealthCheckRequest())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(waiting), 0.3)
        watching.cancel()
        assert (await waiting).status == health_pb2.HealthCheckResponse.SERVING


@with_settings({"max_concurrent_streams": 4})
async def test_a_burst_of_calls_beside_an_open_one_waits_at_the_client_too(address: str) -> None:
    """The next call begins before the server has cleared away the last one, which must not count any more."""
    async with grpc.aio.insecure_channel(address, options=[("grpc.enable_retries", 0)]) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        watching: Any = health.Watch(health_pb2.HealthCheckRequest())
        await watching.read()
        for _ in range(20):
            calls: list[Any] = [health.Check(health_pb2.HealthCheckRequest()) for _ in range(64)]
            assert {(await call).status for call in calls} == {health_pb2.HealthCheckResponse.SERVING}
        watching.cancel()


def pinging_stream_lives(address: str) -> bool:
    """Returns True if a stream of Triton's client survives more pings than the server allows."""
    image = triton.InferInput("x", [1, 4], "FP32")
    image.set_data_from_numpy(np.ones((1, 4), np.float32))
    failed = threading.Event()
    answered = threading.Semaphore(0)

    def answer(result: Any, error: Any) -> None:
        if error is not None:
            failed.set()
        answered.release()

    options = triton.KeepAliveOptions(PING_MS, 20_000, True, 0)
    with triton.InferenceServerClient(address, keepalive_options=options) as client:
        client.start_stream(answer)
        client.async_stream_infer("m", [image])
        assert answered.acquire(timeout=20)
        lives = not failed.wait(5.5 * PING_MS / 1000)
        if lives:
            client.async_stream_infer("m", [image])
            assert answered.acquire(timeout=20)
        client.stop_stream()
    return lives and not failed.is_set()


async def test_a_client_that_pings_too_often_is_disconnected_and_one_at_the_allowed_rate_is_not(
    serve: Serve, double_model: Callable[..., Path]
) -> None:
    """Both at once, since each takes seconds."""
    double_model("m")
    permissive = {"keepalive_min_ping_interval": PING_MS / 2000, "keepalive_permit_without_calls": True}
    addresses = [
        (await serve(transport=TransportSettings(**fields))).removeprefix("grpc://") for fields in (permissive, {})
    ]
    assert await asyncio.gather(*(asyncio.to_thread(pinging_stream_lives, one) for one in addresses)) == [True, False]


@with_settings({"max_connection_age": 0.3, "max_connection_age_grace": 0.1})
async def test_a_connection_ends_at_its_maximum_age(address: str) -> None:
    async with grpc.aio.insecure_channel(address) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        watching: Any = health.Watch(health_pb2.HealthCheckRequest())
        await watching.read()
        assert await asyncio.wait_for(watching.code(), 20) is grpc.StatusCode.UNAVAILABLE
        again: Any = health.Check(health_pb2.HealthCheckRequest())
        assert (await again).status == health_pb2.HealthCheckResponse.SERVING  # on a new connection

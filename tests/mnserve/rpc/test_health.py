"""The health service: what it says, and whom it tells."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from mnserve.engines.base import EngineOptions
from mnserve.models.loading import LoadOptions
from mnserve.models.registry import Models
from mnserve.rpc.health import Health
from mnserve.rpc.services import Services

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


def question(service: str) -> health_pb2.HealthCheckRequest:
    return health_pb2.HealthCheckRequest(service=service)


@pytest.fixture
async def models(repository: Path, double_model: Callable[..., Path]) -> AsyncIterator[Models]:
    double_model("m")
    models = Models(repository, LoadOptions(engine=EngineOptions(intra_op_threads=1)))
    await models.load_all()
    yield models
    await models.drain(5)


@pytest.fixture
async def health(models: Models) -> Health:
    health = Health(models)
    models._on_change = health.update
    health.update()
    return health


@pytest.fixture
async def stub(health: Health) -> AsyncIterator[Any]:
    server = grpc.aio.server()
    health.add_to(Services(server))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield health_pb2_grpc.HealthStub(channel)
    await server.stop(0)


@pytest.mark.skipif(not hasattr(health_pb2, "HealthListRequest"), reason="this grpcio-health-checking has no List")
async def test_list_tells_of_the_server_and_of_all_models(stub: Any) -> None:
    statuses = (await stub.List(vars(health_pb2)["HealthListRequest"]())).statuses
    assert {name: item.status for name, item in statuses.items()} == {
        "": SERVING, "inference.GRPCInferenceService": SERVING, "inference.GRPCInferenceService/ServerLive": SERVING,
        "m": SERVING,
    }  # fmt: skip


async def test_check_tells_the_state_of_server_and_models(stub: Any, models: Models) -> None:
    for service in ("", "inference.GRPCInferenceService", "m"):
        assert (await stub.Check(question(service))).status == SERVING
    await models.unload("m")
    assert (await stub.Check(question("m"))).status == NOT_SERVING
    assert (await stub.Check(question("inference.GRPCInferenceService/ServerLive"))).status == SERVING
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.Check(question("x\n" + "y" * 100))
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert caught.value.details() == f"there is no service or model 'x\\n{'y' * 62}...'"


async def test_watchers_hear_of_changes_after_others_have_left(stub: Any, models: Models) -> None:
    one, other = stub.Watch(question("m")), stub.Watch(question("m"))
    assert [(await one.read()).status, (await other.read()).status] == [SERVING, SERVING]
    one.cancel()
    await asyncio.sleep(0.1)
    await models.unload("m")
    assert (await asyncio.wait_for(other.read(), 10)).status == NOT_SERVING
    await models.load("m")
    assert (await asyncio.wait_for(other.read(), 10)).status == SERVING
    other.cancel()


async def test_a_watcher_may_come_before_its_model(
    stub: Any, models: Models, health: Health, double_model: Callable[..., Path]
) -> None:
    watching = stub.Watch(question("later"))
    assert (await watching.read()).status == UNKNOWN
    double_model("later")
    await models.load("later")
    assert (await asyncio.wait_for(watching.read(), 10)).status == SERVING
    watching.cancel()


async def test_a_watcher_that_has_left_is_forgotten(stub: Any, health: Health) -> None:
    watching = [stub.Watch(question(name)) for name in ("", "m", "nobody")]
    for call in watching:
        await call.read()
    assert len(health._watchers) == 3
    for call in watching:
        call.cancel()
    for _ in range(100):
        if not health._watchers:
            break
        await asyncio.sleep(0.05)
    assert not health._watchers


async def test_a_watcher_is_told_each_state_once(stub: Any, health: Health, models: Models) -> None:
    watching = stub.Watch(question(""))
    assert (await watching.read()).status == SERVING
    for _ in range(3):
        health.update()
        await asyncio.sleep(0.02)
    models.stop()
    assert (await asyncio.wait_for(watching.read(), 10)).status == NOT_SERVING
    watching.cancel()


async def test_watchers_end_with_the_server(stub: Any, health: Health) -> None:
    watching = stub.Watch(question("m"))
    assert (await watching.read()).status == SERVING
    health.close()
    with pytest.raises(grpc.aio.AioRpcError, match="the server is stopping"):
        await asyncio.wait_for(watching.read(), 10)
    assert await watching.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_watcher_that_leaves_while_it_is_written_to_is_left_to_grpc(health: Health) -> None:
    """gRPC cancels the call, and would log any other error."""

    class Gone:
        async def write(self, response: health_pb2.HealthCheckResponse) -> None:
            raise grpc.aio.InternalError("gone")

    watching = asyncio.create_task(health.Watch(question("m"), Gone()))  # type: ignore[arg-type]
    await asyncio.sleep(0.1)
    assert not watching.done()
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching
    assert not health._watchers

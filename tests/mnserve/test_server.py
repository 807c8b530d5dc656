"""The wiring, in this process: what outsiders see when a model dies, and that nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from mnserve.access.addresses import check_port_free, join_address
from mnserve.codec.decoding import InferenceWork
from mnserve.errors import ModelNotReadyError, StartError
from mnserve.protocol import service_pb2 as pb
from mnserve.protocol.service_pb2_grpc import GRPCInferenceServiceStub
from mnserve.rpc.front_end import StopTimes
from mnserve.server import Server
from mnserve.settings import ServeSettings

WriteModel = Callable[..., Path]
STATUS = health_pb2.HealthCheckResponse


AT_ONCE = StopTimes(refusal=0.0, last_answers=0.2)


def settings(repository: Path, **fields: object) -> ServeSettings:
    given = {"repository": str(repository), "grpc_port": 0, "metrics_port": 0, "intra_op_threads": 1, **fields}
    return ServeSettings(**given)  # type: ignore[arg-type]


async def test_a_model_that_dies_is_seen_from_outside(repository: Path, double_model: WriteModel) -> None:
    double_model("a")
    double_model("b")
    server = Server(settings(repository), stop_times=AT_ONCE)
    addresses = await server.start()
    async with grpc.aio.insecure_channel(addresses.grpc.removeprefix("grpc://")) as channel:
        health = health_pb2_grpc.HealthStub(channel)

        async def status(service: str) -> int:
            answer = await health.Check(health_pb2.HealthCheckRequest(service=service))  # type: ignore[misc]
            return int(answer.status)

        assert [await status(name) for name in ("", "a", "b")] == [STATUS.SERVING] * 3
        served = server.states[0].served
        assert served is not None
        served.batcher._on_batch = lambda execution: 1 / 0  # type: ignore[assignment,return-value]
        with pytest.raises(ModelNotReadyError):
            await served.batcher.infer(InferenceWork(feeds={"x": np.ones((1, 4), np.float32)}, rows=1, outputs=("y",)))
        async with asyncio.timeout(20):
            while await status("a") == STATUS.SERVING:
                await asyncio.sleep(0.01)
        assert [await status(name) for name in ("", "a", "b")] == [
            STATUS.NOT_SERVING,
            STATUS.NOT_SERVING,
            STATUS.SERVING,
        ]
        stub = GRPCInferenceServiceStub(channel)  # type: ignore[arg-type]
        assert not (await stub.ServerReady(pb.ServerReadyRequest())).ready  # type: ignore[misc]
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.ModelInfer(pb.ModelInferRequest(model_name="a"))  # type: ignore[misc]
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert ("grpc-retry-pushback-ms", "1000") in tuple(caught.value.trailing_metadata())
    assert await server.stop()
    gc.collect()


async def test_a_strict_server_refuses_to_start_with_a_broken_model(repository: Path, double_model: WriteModel) -> None:
    double_model("good")
    (double_model("bad") / "1" / "model.onnx").write_bytes(b"garbage")
    server = Server(settings(repository, strict=True), stop_times=AT_ONCE)
    with pytest.raises(StartError, match=r"--strict.*cannot load"):
        await server.start()
    assert await server.stop()


async def test_two_servers_cannot_share_a_port(repository: Path, double_model: WriteModel) -> None:
    double_model()
    first = Server(settings(repository), stop_times=AT_ONCE)
    addresses = await first.start()
    port = int(addresses.grpc.rsplit(":", 1)[1])
    second = Server(settings(repository, grpc_port=port), stop_times=AT_ONCE)
    with pytest.raises(StartError, match=f"127.0.0.1:{port}"):
        await second.start()
    assert await second.stop()
    assert await first.stop()


def test_addresses_are_joined_and_invalid_hosts_refused() -> None:
    assert join_address("127.0.0.1", 1) == "127.0.0.1:1"
    assert join_address("::1", 1) == "[::1]:1"
    for host in ("no.such.host.invalid", "..", "a" * 100):
        with pytest.raises(StartError, match="--host"):
            check_port_free(host, 0, "--grpc-port")


async def test_calls_of_inference_can_be_bounded_and_others_have_places_of_their_own(
    repository: Path, double_model: WriteModel
) -> None:
    double_model("m")
    server = Server(settings(repository, max_concurrent_requests=1), stop_times=AT_ONCE)
    addresses = await server.start()
    async with grpc.aio.insecure_channel(addresses.grpc.removeprefix("grpc://")) as channel:
        stub: Any = GRPCInferenceServiceStub(channel)  # type: ignore[arg-type]
        health: Any = health_pb2_grpc.HealthStub(channel)
        watching = [health.Watch(health_pb2.HealthCheckRequest(service="m")) for _ in range(20)]
        assert [(await call.read()).status for call in watching] == [STATUS.SERVING] * 20
        stream = stub.ModelStreamInfer()
        await stream.write(pb.ModelInferRequest(model_name="none"))
        assert "there is no model" in (await stream.read()).error_message
        for call in (stub.ModelInfer(pb.ModelInferRequest(model_name="m")), stub.ModelStreamInfer(iter([]))):
            assert await call.code() is grpc.StatusCode.UNAVAILABLE
            assert "has 1 calls of inference in progress" in await call.details()
            assert ("grpc-retry-pushback-ms", "100") in tuple(await call.trailing_metadata())
        assert (await stub.ServerLive(pb.ServerLiveRequest())).live
        assert (await health.Check(health_pb2.HealthCheckRequest(service="m"))).status == STATUS.SERVING
        assert (await stub.ModelMetadata(pb.ModelMetadataRequest(name="m"))).name == "m"
        page = (await asyncio.to_thread(urllib.request.urlopen, addresses.metrics)).read().decode()
        assert 'mnserve_refused_calls{reason="PLACES"} 2.0' in page
        await stream.done_writing()
        assert await stream.read() is grpc.aio.EOF
        async with asyncio.timeout(20):  # the end of the stream is not counted at once
            while (await stub.ModelInfer(pb.ModelInferRequest(model_name="m")).code()) is grpc.StatusCode.UNAVAILABLE:
                await asyncio.sleep(0.01)
    assert await server.stop()


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        ("/inference.GRPCInferenceService/ModelConfig", "ModelConfigRequest"),
        ("/grpc.health.v1.Health/Check", "HealthCheckRequest"),
        ("/grpc.health.v1.Health/Watch", "HealthCheckRequest"),
    ],
)
async def test_messages_that_do_not_parse_are_refused(
    repository: Path, double_model: WriteModel, caplog: pytest.LogCaptureFixture, method: str, kind: str
) -> None:
    double_model()
    server = Server(settings(repository), stop_times=AT_ONCE)
    addresses = await server.start()
    async with grpc.aio.insecure_channel(addresses.grpc.removeprefix("grpc://")) as channel:
        call = channel.unary_stream(method)(b"\xff" * 10)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert caught.value.details() == f"the message is not a valid {kind}"
    assert await server.stop()
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    ("fields", "ready"),
    [
        ({"model_control": "poll"}, False),
        ({"model_control": "poll", "allow_empty": True}, True),
        ({"model_control": "none", "allow_empty": True}, True),
        ({"model_control": "explicit"}, True),
    ],
)
async def test_a_server_without_models_is_ready_where_that_was_asked_for(
    repository: Path, fields: dict[str, object], ready: bool
) -> None:
    (repository / "lost+found").mkdir()
    server = Server(settings(repository, **fields), stop_times=AT_ONCE)
    addresses = await server.start()
    async with grpc.aio.insecure_channel(addresses.grpc.removeprefix("grpc://")) as channel:
        health = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())  # type: ignore[misc]
        assert health.status == (STATUS.SERVING if ready else STATUS.NOT_SERVING)
        stub = GRPCInferenceServiceStub(channel)  # type: ignore[arg-type]
        assert (await stub.ServerReady(pb.ServerReadyRequest())).ready is ready  # type: ignore[misc]
        assert (await stub.ServerLive(pb.ServerLiveRequest())).live  # type: ignore[misc]
    assert await server.stop()

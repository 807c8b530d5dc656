"""Calls through Ray Serve's own gRPC server to a replica in this process: everything but the workers of Ray."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from mnserve.distributed.arguments import settings_from_arguments
from mnserve.distributed.router import Router
from mnserve.execution.engine_thread import EngineThread
from mnserve.protocol import service_pb2 as pb
from mnserve.protocol.service_pb2_grpc import GRPCInferenceServiceStub

ROWS = np.arange(4, dtype=np.float32).reshape(1, 4)


def request(model: str = "double", array: Any = ROWS, turns: int | None = None, **fields: Any) -> pb.ModelInferRequest:
    message = pb.ModelInferRequest(model_name=model, **fields)
    message.inputs.add(name="x", datatype="FP32", shape=array.shape)
    message.raw_input_contents.append(array.tobytes())
    if turns is not None:
        message.inputs.add(name="turns", datatype="INT64", shape=[1, 1])
        message.raw_input_contents.append(np.array([[turns]], np.int64).tobytes())
    return message


def answer_of(response: pb.ModelInferResponse) -> list[float]:
    values: list[float] = np.frombuffer(response.raw_output_contents[0], np.float32).tolist()
    return values


async def status_of(call: Awaitable[Any]) -> tuple[str, str, dict[str, Any]]:
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await call
    return failed.value.code().name, failed.value.details() or "", dict(failed.value.trailing_metadata())


async def test_calls_are_answered_as_by_a_server(replicas: Any, connect: Any) -> None:
    stub = GRPCInferenceServiceStub(await connect(await replicas()))
    for _ in range(3):  # the second is of a form that is known
        assert answer_of(await stub.ModelInfer(request(id="7"))) == (2 * ROWS[0]).tolist()
    assert (await stub.ServerReady(pb.ServerReadyRequest())).ready
    assert not (await stub.ModelReady(pb.ModelReadyRequest(name="nothing"))).ready
    counted = await stub.ModelStatistics(pb.ModelStatisticsRequest(name="double"))
    assert counted.model_stats[0].inference_count == 3
    assert "model_repository" not in (await stub.ServerMetadata(pb.ServerMetadataRequest())).extensions


async def test_a_refused_call_has_status_words_and_no_mark(replicas: Any, connect: Any) -> None:
    channel = await connect(await replicas())
    code, words, trailing = await status_of(GRPCInferenceServiceStub(channel).ModelInfer(request("nothing")))
    assert code == "NOT_FOUND"
    assert "there is no model 'nothing'" in words
    assert not [key for key in trailing if key.startswith("mnserve")]
    assert (await status_of(channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")(b"\xff\xff")))[0] == (
        "INVALID_ARGUMENT"
    )
    code, words, _ = await status_of(
        GRPCInferenceServiceStub(channel).RepositoryModelLoad(pb.RepositoryModelLoadRequest(model_name="double"))
    )
    assert code == "UNIMPLEMENTED"
    assert "serve deploy" in words


async def test_a_fault_of_ours_stays_internal(
    replicas: Any, connect: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken = await replicas()
    channel = await connect(broken)

    def fail(*_args: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(broken._server.models, "is_ready", fail)
    code, words, _ = await status_of(GRPCInferenceServiceStub(channel).ModelReady(pb.ModelReadyRequest(name="double")))
    assert code == "INTERNAL"
    assert "the server's log has the details" in words
    assert "ZeroDivisionError" in caplog.text


async def test_a_lost_replica_may_be_tried_again(replicas: Any, connect: Any) -> None:
    stub = GRPCInferenceServiceStub(await connect(await replicas(), lost=lambda: True))
    code, words, trailing = await status_of(stub.ModelInfer(request()))
    assert code == "UNAVAILABLE"
    assert "try again" in words
    assert trailing["grpc-retry-pushback-ms"] == "250"


@pytest.mark.parametrize(
    ("attempts", "wait"), [("1", "500"), ("2", "1000"), ("4", "2000"), ("99", "250"), ("-1", "250"), ("a", "250")]
)
async def test_each_attempt_waits_longer_for_another_replica(
    replicas: Any, connect: Any, handle_of: Any, attempts: str, wait: str
) -> None:
    metadata = (("grpc-previous-rpc-attempts", attempts),)
    stub = GRPCInferenceServiceStub(await connect(await replicas(), lost=lambda: True))
    assert (await status_of(stub.ModelInfer(request(), metadata=metadata)))[2]["grpc-retry-pushback-ms"] == wait
    router = Router({"double": (handle := handle_of(None))}, settings_from_arguments({"repository": "models"}))
    handle.lost = True
    stub = GRPCInferenceServiceStub(await connect(router))
    assert (await status_of(stub.ModelInfer(request(), metadata=metadata)))[2]["grpc-retry-pushback-ms"] == wait


async def test_calls_beyond_the_places_are_told_when_to_come_back(replicas: Any, connect: Any) -> None:
    stub = GRPCInferenceServiceStub(await connect(await replicas(max_concurrent_requests=1)))
    first = stub.ModelInfer(request("slow", turns=20_000))
    await asyncio.sleep(0.05)
    code, _, trailing = await status_of(stub.ModelInfer(request()))
    assert code == "UNAVAILABLE"
    assert "grpc-retry-pushback-ms" in trailing
    first.cancel()


async def test_tokens_hold_at_the_replica(replicas: Any, connect: Any, token_file: Callable[[str], str]) -> None:
    words = "correct-horse-battery-staple-01 infer\n"
    guarded = await replicas(token_file=token_file(words), insecure_tokens=True)
    stub = GRPCInferenceServiceStub(await connect(guarded))
    assert (await stub.ServerLive(pb.ServerLiveRequest())).live
    token = (("authorization", f"Bearer {words.split()[0]}"),)
    assert (await status_of(stub.ModelInfer(request())))[0] == "UNAUTHENTICATED"
    assert answer_of(await stub.ModelInfer(request(), metadata=token))
    load = pb.RepositoryModelLoadRequest(model_name="double")
    assert (await status_of(stub.RepositoryModelLoad(load, metadata=token)))[0] == "PERMISSION_DENIED"


async def test_a_stream_answers_in_order(replicas: Any, connect: Any) -> None:
    stub = GRPCInferenceServiceStub(await connect(await replicas()))
    names = ["double", "nothing", *["double"] * 20]
    stream = stub.ModelStreamInfer(iter([request(name, ROWS + index) for index, name in enumerate(names)]))
    answers = [answer async for answer in stream]
    assert [bool(answer.error_message) for answer in answers] == [name == "nothing" for name in names]
    assert answer_of(answers[-1].infer_response)[0] == 2 * 21


async def test_a_stream_ends_at_what_is_no_message(replicas: Any, connect: Any) -> None:
    channel = await connect(await replicas())
    call = channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer")
    stream = call(iter([request().SerializeToString(), b"\xff\xff"]))
    assert not pb.ModelStreamInferResponse.FromString(await stream.read()).error_message
    code, words, _ = await status_of(stream.read())
    assert code == "INVALID_ARGUMENT"
    assert "not a valid ModelInferRequest" in words


async def test_a_replica_loads_what_is_new_and_keeps_what_cannot_be_loaded(
    replicas: Any, repository: Path, tmp_path: Path
) -> None:
    served = await replicas()
    before = served._server.models.find("double")
    await served.reconfigure({"revision": "1"})
    assert served._server.models.find("double") is before
    file = repository / "double" / "1" / "model.onnx"
    content = file.read_bytes()
    file.write_bytes(b"no model")
    try:
        await served.reconfigure({"revision": "2"})
    finally:
        file.write_bytes(content)
    assert served._server.models.find("double") is before
    assert "double" in (await served.describe())["fault"]
    await served.reconfigure({"revision": "3"})
    assert served._server.models.find("double") is not before
    assert (await served.describe())["fault"] == ""
    before = served._server.models.find("double")
    assert await served.reload_all() == []
    assert served._server.models.find("double") is not before


async def test_a_broken_engine_is_unhealthy(replicas: Any, connect: Any) -> None:
    broken = await replicas(run_timeout=0.2)
    await broken.check_health()
    stub = GRPCInferenceServiceStub(await connect(broken))
    assert (await status_of(stub.ModelInfer(request("slow", turns=300_000))))[0] == "UNAVAILABLE"
    with pytest.raises(Exception, match="slow"):
        await broken.check_health()
    while EngineThread.any_alive():  # else the interpreter would end around it
        await broken.stop()
        await asyncio.sleep(0.1)


async def test_waiting_rows_are_reported(replicas: Any, connect: Any) -> None:
    loaded = await replicas()
    stub = GRPCInferenceServiceStub(await connect(loaded))
    calls = [stub.ModelInfer(request("slow", turns=20_000)) for _ in range(30)]
    for _ in range(100):
        if (await loaded.record_autoscaling_stats())["queued_rows"] >= 8:
            break
        await asyncio.sleep(0.02)
    else:
        pytest.fail("no rows wait")
    for call in calls:
        call.cancel()


async def test_each_call_goes_to_the_model_that_it_names(replicas: Any, connect: Any, handle_of: Any) -> None:
    handles = {name: handle_of(await replicas(only=(name,))) for name in ("double", "slow")}
    router = Router(handles, settings_from_arguments({"repository": "models"}))
    channel = await connect(router)
    stub = GRPCInferenceServiceStub(channel)
    assert answer_of(await stub.ModelInfer(request())) == (2 * ROWS[0]).tolist()
    assert (await stub.ServerReady(pb.ServerReadyRequest())).ready
    assert (await stub.ModelMetadata(pb.ModelMetadataRequest(name="slow"))).name == "slow"
    index = await stub.RepositoryIndex(pb.RepositoryIndexRequest())
    assert [(row.name, row.state) for row in index.models] == [("double", "READY"), ("slow", "READY")]
    counted = await stub.ModelStatistics(pb.ModelStatisticsRequest())
    assert {row.name: row.inference_count for row in counted.model_stats} == {"double": 1, "slow": 0}
    listed = json.loads(await channel.unary_unary("/mnserve.Replicas/ListReplicas")(b""))["replicas"]
    assert sorted(model for one in listed for model in one["models"]) == ["double", "slow"]
    assert (await status_of(stub.ModelInfer(request("nothing"))))[0] == "NOT_FOUND"
    assert (await status_of(stub.ModelInfer(request(array=np.zeros((1, 5), np.float32)))))[0] == "INVALID_ARGUMENT"
    stream = stub.ModelStreamInfer(iter([request(), request("nothing"), request()]))
    assert [bool(answer.error_message) async for answer in stream] == [False, True, False]
    health = health_pb2_grpc.HealthStub(channel)
    for service in ("", "slow"):
        assert (await health.Check(health_pb2.HealthCheckRequest(service=service))).status == 1
    assert (await status_of(health.Check(health_pb2.HealthCheckRequest(service="nothing"))))[0] == "NOT_FOUND"
    assert await router.reload_all() == []
    handles["slow"].lost = True
    assert (await status_of(stub.ModelInfer(request("slow", turns=1))))[0] == "UNAVAILABLE"
    assert not (await stub.ServerReady(pb.ServerReadyRequest())).ready
    assert answer_of(await stub.ModelInfer(request()))

"""Limits of rates and kept answers, as callers of a server see them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from mnserve.access.rate_limits import RateLimits
from mnserve.access.refused_calls import RefusedCalls
from mnserve.engines.fake import FakeEngine
from mnserve.errors import StoppingError
from mnserve.models.loading import LoadOptions
from mnserve.models.registry import Models
from mnserve.models.response_cache import ResponseCache
from mnserve.protocol import service_pb2 as pb
from mnserve.protocol.service_pb2_grpc import GRPCInferenceServiceStub, add_GRPCInferenceServiceServicer_to_server
from mnserve.rpc.control_calls import ServiceOptions
from mnserve.rpc.inference import Inference
from mnserve.rpc.servicer import Servicer
from mnserve.settings import ServeSettings

WriteModel = Callable[..., Path]
CACHED = "response_cache { enable: true }"


def request(*values: float, name: str = "m") -> pb.ModelInferRequest:
    message = pb.ModelInferRequest(model_name=name)
    message.inputs.add(name="x", datatype="FP32", shape=[1, len(values)])
    message.raw_input_contents.append(np.array(values, "<f4").tobytes())
    return message


@asynccontextmanager
async def serving(
    root: Path, *engines: FakeEngine, cache: ResponseCache | None = None, **offered: Any
) -> AsyncIterator[tuple[Any, Models]]:
    left = iter(engines)
    models = Models(root, LoadOptions(warm_up=False, factory=lambda path, options: next(left), cache=cache))
    await models.load_all()
    server = grpc.aio.server()
    add_GRPCInferenceServiceServicer_to_server(Servicer(models, offered=ServiceOptions(**offered)), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield GRPCInferenceServiceStub(channel), models  # type: ignore[arg-type]  # generated for the blocking channel
    assert await models.drain(20)
    await server.stop(None)


async def values(call: Any) -> list[float]:
    return np.frombuffer((await call).raw_output_contents[0], "<f4").tolist()


async def test_a_caller_over_its_rate_is_told_when_to_come_back(repository: Path, double_model: WriteModel) -> None:
    double_model("m")
    async with serving(repository, FakeEngine(), limits=RateLimits(0.001, 2)) as (stub, models):
        for _ in range(2):
            await stub.ModelInfer(request(1, 1, 1, 1))
        with pytest.raises(grpc.aio.AioRpcError, match=r"more than 0\.001 requests a second") as caught:
            await stub.ModelInfer(request(1, 1, 1, 1))
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        trailing = dict(caught.value.trailing_metadata() or ())
        assert 900_000 < int(trailing["grpc-retry-pushback-ms"]) <= 1_000_000
        counters = models.find("m").counters
        assert (counters.success.count, counters.failure["REJECTED"].count) == (2, 1)
        await stub.ModelMetadata(pb.ModelMetadataRequest(name="m"))


async def test_a_request_whose_model_is_replaced_meanwhile_counts_once(
    repository: Path, double_model: WriteModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    double_model("m")
    async with serving(repository, FakeEngine(), limits=RateLimits(0.001, 1)) as (stub, models):
        batcher = models.find("m").batcher
        asked, admit = [], batcher.reject_early

        def refuse_once(*args: Any, **fields: Any) -> None:
            asked.append(args)
            if len(asked) == 1:
                raise StoppingError("replaced")
            admit(*args, **fields)

        monkeypatch.setattr(batcher, "reject_early", refuse_once)
        monkeypatch.setattr(Inference, "_was_replaced", lambda *_: True)
        await stub.ModelInfer(request(1, 1, 1, 1))
        assert len(asked) >= 2


async def test_requests_for_unknown_models_take_permits(repository: Path, double_model: WriteModel) -> None:
    double_model("m")
    refused = RefusedCalls()
    async with serving(repository, FakeEngine(), limits=RateLimits(0.001, 2), refused=refused) as (stub, models):
        codes = [
            (await stub.ModelInfer(request(1, 1, 1, 1, name=name)).code()).name
            for name in ("nobody", "none", "no one", "m")
        ]
        assert codes == ["NOT_FOUND", "NOT_FOUND", "RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED"]
        assert refused.counts["RATE"] == 1
        assert models.find("m").counters.failure["REJECTED"].count == 1


async def test_each_request_of_a_stream_counts_for_the_rate(repository: Path, double_model: WriteModel) -> None:
    double_model("m")
    async with serving(repository, FakeEngine(), limits=RateLimits(0.001, 2)) as (stub, _):
        call = stub.ModelStreamInfer(iter([request(1, 1, 1, 1)] * 4))
        errors = [answer.error_message async for answer in call]
    assert [bool(error) for error in errors] == [False, False, True, True]


@pytest.mark.parametrize("by_token", [True, False])
async def test_callers_are_told_apart_by_token_only_where_tokens_are_checked(
    by_token: bool, repository: Path, double_model: WriteModel
) -> None:
    double_model("m")
    async with serving(repository, FakeEngine(), limits=RateLimits(0.001, 1), by_token=by_token) as (stub, _):
        codes = []
        for token in ("one", "two", "two"):
            try:
                await stub.ModelInfer(request(1, 1, 1, 1), metadata=(("authorization", f"Bearer {token}"),))
                codes.append("OK")
            except grpc.aio.AioRpcError as error:
                codes.append(error.code().name)
    refused = "RESOURCE_EXHAUSTED"
    assert codes == (["OK", "OK", refused] if by_token else ["OK", refused, refused])


async def test_an_equal_request_is_answered_without_the_engine(repository: Path, double_model: WriteModel) -> None:
    double_model("m", config=CACHED)
    engine = FakeEngine()
    async with serving(repository, engine, cache=ResponseCache(10_000)) as (stub, models):
        for wanted in ((1, 2, 3, 4), (1, 2, 3, 4), (5, 2, 3, 4), (1, 2, 3, 4)):
            assert await values(stub.ModelInfer(request(*wanted))) == [2.0 * value for value in wanted]
        assert len(engine.calls) == 2
        stats = (await stub.ModelStatistics(pb.ModelStatisticsRequest(name="m"))).model_stats[0]
        inference = stats.inference_stats
        assert (inference.success.count, inference.cache_hit.count, inference.cache_miss.count) == (4, 2, 2)
        assert (stats.inference_count, inference.compute_infer.count) == (2, 2)
        assert inference.cache_hit.ns > 0
        counters = models.find("m").counters
        assert counters.success.count == 4


async def test_a_model_that_is_loaded_again_answers_anew(repository: Path, double_model: WriteModel) -> None:
    double_model("m", config=CACHED)
    engines, cache = (FakeEngine(), FakeEngine()), ResponseCache(10_000)
    async with serving(repository, *engines, cache=cache) as (stub, models):
        await stub.ModelInfer(request(1, 2, 3, 4))
        await models.load("m")
        await stub.ModelInfer(request(1, 2, 3, 4))
        assert [len(engine.calls) for engine in engines] == [1, 1]
        async with asyncio.timeout(20):
            while len(cache) != 1:
                await asyncio.sleep(0.001)


@pytest.mark.parametrize(("config", "room"), [("", 10_000), (CACHED, None)])
async def test_answers_are_cached_only_if_model_and_server_allow_it(
    config: str, room: int | None, repository: Path, double_model: WriteModel, caplog: pytest.LogCaptureFixture
) -> None:
    double_model("m", config=config)
    engine = FakeEngine()
    async with serving(repository, engine, cache=None if room is None else ResponseCache(room)) as (stub, _):
        for _ in range(2):
            await stub.ModelInfer(request(1, 2, 3, 4))
    assert len(engine.calls) == 2
    assert ("its answers are not kept, as the server has no --cache-bytes" in caplog.text) == (room is None)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"cache_bytes": -1}, "--cache-bytes is -1"),
        ({"rate_limit": -0.5}, r"--rate-limit is -0\.5"),
        ({"rate_limit": float("nan")}, "--rate-limit is nan"),
        ({"rate_burst": 3}, "--rate-burst is 3; it goes with --rate-limit"),
        ({"run_timeout": -1}, "--run-timeout is -1"),
        ({"trace_rate": 0}, "--trace-rate is 0"),
        ({"trace_endpoint": "localhost:4317"}, "--trace-endpoint is 'localhost:4317'"),
    ],
)
def test_settings_that_cannot_work_are_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(Exception, match=words):
        ServeSettings(repository="models", **fields)

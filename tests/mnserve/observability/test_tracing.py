"""Spans of real requests, in memory and at a collector."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from mnserve.engines.fake import FakeEngine
from mnserve.errors import StartError
from mnserve.models.loading import LoadOptions
from mnserve.models.registry import Models
from mnserve.observability.trace_settings import TraceChoice, TraceSettings
from mnserve.observability.tracing import RequestTrace, Tracing
from mnserve.protocol import service_pb2 as pb
from mnserve.protocol.service_pb2_grpc import GRPCInferenceServiceStub, add_GRPCInferenceServiceServicer_to_server
from mnserve.rpc.control_calls import ServiceOptions
from mnserve.rpc.servicer import Servicer

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def request(model: str = "m", **fields: Any) -> pb.ModelInferRequest:
    message = pb.ModelInferRequest(model_name=model, **fields)
    message.inputs.add(name="x", datatype="FP32", shape=[2, 4])
    message.raw_input_contents.append(np.ones(8, "<f4").tobytes())
    return message


@asynccontextmanager
async def serving(root: Path, tracing: Tracing) -> AsyncIterator[Any]:
    models = Models(root, LoadOptions(warm_up=False, factory=lambda path, options: FakeEngine()))
    await models.load_all()
    server = grpc.aio.server()
    add_GRPCInferenceServiceServicer_to_server(Servicer(models, offered=ServiceOptions(tracing=tracing)), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield GRPCInferenceServiceStub(channel)  # type: ignore[arg-type]  # generated for the blocking channel
    assert await models.drain(20)
    await server.stop(None)
    tracing.close()


def by_name(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name.rpartition("/")[2]: span for span in exporter.get_finished_spans()}


def times(span: ReadableSpan) -> tuple[int, int]:
    assert span.start_time is not None
    assert span.end_time is not None
    return span.start_time, span.end_time


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracing(exporter: SpanExporter) -> Tracing:
    return Tracing(TraceSettings(TraceChoice(rate=1)), exporter)


async def test_a_request_is_a_span_below_its_callers_with_wait_batch_and_engine_below_it(
    repository: Path, double_model: Callable[..., Path], exporter: InMemorySpanExporter, tracing: Tracing
) -> None:
    double_model("m", config="max_batch_size: 32")
    async with serving(repository, tracing) as stub:
        metadata = (("traceparent", f"00-{TRACE}-{SPAN}-01"),)
        await stub.ModelInfer(request(id="r7"), metadata=metadata)
    spans = by_name(exporter)
    assert spans.keys() == {"ModelInfer", "queue", "batch", "engine"}
    assert {f"{span.get_span_context().trace_id:032x}" for span in spans.values()} == {TRACE}  # type: ignore[union-attr]
    parents = {name: span.parent and f"{span.parent.span_id:016x}" for name, span in spans.items()}
    ids = {name: f"{span.get_span_context().span_id:016x}" for name, span in spans.items()}  # type: ignore[union-attr]
    assert parents == {
        "ModelInfer": SPAN,
        "queue": ids["ModelInfer"],
        "batch": ids["ModelInfer"],
        "engine": ids["batch"],
    }
    start, end = times(spans["ModelInfer"])
    queue, batch, engine = (times(spans[name]) for name in ("queue", "batch", "engine"))
    assert start <= queue[0] <= queue[1] == batch[0] <= engine[0] <= engine[1] <= batch[1] <= end
    assert spans["ModelInfer"].attributes == {
        "rpc.system": "grpc",
        "rpc.service": "inference.GRPCInferenceService",
        "rpc.method": "ModelInfer",
        "rpc.grpc.status_code": 0,
        "mnserve.model.name": "m",
        "mnserve.model.version": 1,
        "mnserve.request.id": "r7",
        "mnserve.rows": 2,
    }


async def test_a_request_that_fails_has_a_span_with_its_status(
    repository: Path, double_model: Callable[..., Path], exporter: InMemorySpanExporter, tracing: Tracing
) -> None:
    double_model("m", config="max_batch_size: 32")
    async with serving(repository, tracing) as stub:
        with pytest.raises(grpc.aio.AioRpcError):
            await stub.ModelInfer(request("nothing"), metadata=(("traceparent", "00-nonsense"),))
    (span,) = exporter.get_finished_spans()
    assert span.parent is None
    assert not span.status.is_ok
    assert "there is no model 'nothing'" in str(span.status.description)
    assert span.attributes is not None
    assert span.attributes["rpc.grpc.status_code"] == grpc.StatusCode.NOT_FOUND.value[0]
    assert span.attributes["error.type"] == "UnknownModelError"


async def test_a_request_whose_trace_cannot_end_counts_once_as_a_failure(
    repository: Path, double_model: Callable[..., Path], tracing: Tracing, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(*_: object) -> None:
        raise RuntimeError("no span")

    monkeypatch.setattr(RequestTrace, "answered", fault)
    double_model("m", config="max_batch_size: 32")
    async with serving(repository, tracing) as stub:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.ModelInfer(request())
        assert caught.value.code() is grpc.StatusCode.INTERNAL
        statistics = await stub.ModelStatistics(pb.ModelStatisticsRequest(name="m"))
    counts = statistics.model_stats[0].inference_stats
    assert (counts.success.count, counts.fail.count) == (0, 1)


async def test_requests_of_a_stream_are_traced_each(
    repository: Path, double_model: Callable[..., Path], exporter: InMemorySpanExporter, tracing: Tracing
) -> None:
    double_model("m", config="max_batch_size: 32")
    async with serving(repository, tracing) as stub:
        call = stub.ModelStreamInfer(iter([request(id="1"), request(id="2")]))
        assert len([answer async for answer in call]) == 2
    found = [span for span in exporter.get_finished_spans() if span.name.endswith("/ModelStreamInfer")]
    assert sorted(str(span.attributes and span.attributes["mnserve.request.id"]) for span in found) == ["1", "2"]


async def test_trace_settings_can_be_changed_while_a_model_is_served(
    repository: Path, double_model: Callable[..., Path], exporter: InMemorySpanExporter, tracing: Tracing
) -> None:
    double_model("m", config="max_batch_size: 32")
    async with serving(repository, tracing) as stub:
        off = pb.TraceSettingRequest(model_name="m")
        off.settings["trace_level"].value.append("OFF")
        answer = await stub.TraceSetting(off)
        assert list(answer.settings["trace_level"].value) == ["OFF"]
        await stub.ModelInfer(request())
        other = await stub.TraceSetting(pb.TraceSettingRequest())
        assert list(other.settings["trace_level"].value) == ["TIMESTAMPS"]
        with pytest.raises(grpc.aio.AioRpcError, match="there is no model 'x'"):
            await stub.TraceSetting(pb.TraceSettingRequest(model_name="x"))
        assert "trace" in (await stub.ServerMetadata(pb.ServerMetadataRequest())).extensions
    assert exporter.get_finished_spans() == ()


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Takes what OpenTelemetry's exporter sends."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def Export(self, request: Any, context: Any) -> Any:
        spans = [span for item in request.resource_spans for scope in item.scope_spans for span in scope.spans]
        self.names += [span.name for span in spans]
        return trace_service_pb2.ExportTraceServiceResponse()


async def test_a_collector_gets_the_spans(repository: Path, double_model: Callable[..., Path]) -> None:
    double_model("m", config="max_batch_size: 32")
    collector = Collector()
    server = grpc.server(ThreadPoolExecutor(1))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(collector, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        tracing = Tracing.to_collector(f"http://127.0.0.1:{port}", TraceSettings(TraceChoice(rate=1)))
        async with serving(repository, tracing) as stub:
            await stub.ModelInfer(request())
    finally:
        server.stop(None).wait()
    assert collector.names.count("inference.GRPCInferenceService/ModelInfer") == 1
    assert len(collector.names) == 4


def test_without_opentelemetry_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.grpc.trace_exporter", None)
    with pytest.raises(StartError, match=r"pip install '\.\[trace\]'"):
        Tracing.to_collector("http://127.0.0.1:1", TraceSettings(TraceChoice()))


@pytest.mark.parametrize(
    ("rate", "traceparent", "traced"),
    [
        (1000, f"00-{TRACE}-{SPAN}-01", True),
        (1, f"00-{TRACE}-{SPAN}-00", False),
        (1, f"00-{'0' * 32}-{SPAN}-00", True),
        (1, "00-nonsense-00", True),
    ],
)
def test_the_sampling_flag_of_the_caller_is_honoured(
    rate: int, traceparent: str, traced: bool, exporter: InMemorySpanExporter
) -> None:
    tracing = Tracing(TraceSettings(TraceChoice(rate=rate)), exporter)
    begun = tracing.begin("ModelInfer", "m", "", [("traceparent", traceparent), ("other", b"x")])
    assert (begun is not None) is traced
    tracing.close()


@pytest.mark.parametrize(
    ("endpoint", "options"),
    [
        ("http://localhost:4317", (("grpc.enable_http_proxy", 0),)),
        ("https://[::1]:4317", (("grpc.enable_http_proxy", 0),)),
        ("http://collector:4317", None),
    ],
)
def test_a_collector_on_this_machine_is_reached_without_a_proxy(
    endpoint: str, options: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter, given = InMemorySpanExporter(), []

    def export(**named: Any) -> InMemorySpanExporter:
        given.append((named["endpoint"], named["channel_options"]))
        return exporter

    monkeypatch.setattr("opentelemetry.exporter.otlp.proto.grpc.trace_exporter.OTLPSpanExporter", export)
    Tracing.to_collector(endpoint, TraceSettings(TraceChoice(rate=1))).close()
    assert given == [(endpoint, options)]

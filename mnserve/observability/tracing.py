"""Spans of requests, sent to an OpenTelemetry collector.

A traced request becomes a span, below that of its caller if the call has `traceparent`. Below the span are its wait,
its batch, and the run of the engine. All spans are made at the end of the request, so an untraced request costs one
look at a counter.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from mnserve.access.addresses import is_loopback
from mnserve.errors import StartError
from mnserve.execution.results import InferenceResult
from mnserve.models.catalogue import Endpoint
from mnserve.observability.trace_settings import TraceSettings
from mnserve.status import status_code
from mnserve.text.names import printable

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

Metadata = Iterable[tuple[str, str | bytes]]

_SERVICE: Final = "inference.GRPCInferenceService"
_KEYS: Final = ("traceparent", "tracestate")
_FLUSH_SECONDS: Final = 3
_REMEDY: Final = (
    "--trace-endpoint needs OpenTelemetry; install it, in a clone of mn-runtime, with pip install '.[trace]'"
)


class Tracing:
    """Selects the requests that are traced, and sends their spans.

    Args:
        settings: Choice of the requests.
        exporter: Sends the spans, from a thread of its own.
    """

    def __init__(self, settings: TraceSettings, exporter: SpanExporter) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ALWAYS_ON
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self.settings = settings
        self._propagator = TraceContextTextMapPropagator()
        resource = Resource.create({"service.name": "mnserve"})
        self._provider = TracerProvider(sampler=ALWAYS_ON, resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("mnserve")

    @classmethod
    def to_collector(cls, endpoint: str, settings: TraceSettings) -> Tracing:
        """Connects to a collector that takes OTLP over gRPC.

        Args:
            endpoint: URL of the collector, such as http://localhost:4317; https encrypts.
            settings: Choice of the requests.

        Raises:
            StartError: OpenTelemetry is not installed.
        """
        try:
            from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
        except ImportError as error:
            raise StartError(_REMEDY) from error
        local = is_loopback(urlsplit(endpoint).hostname or "")
        exporter = OTLPSpanExporter(
            endpoint=endpoint,
            insecure=endpoint.startswith("http://"),
            # A proxy of the environment would look for the collector on its own machine.
            channel_options=(("grpc.enable_http_proxy", 0),) if local else None,  # type: ignore[arg-type]  # numbers, too
        )
        return cls(settings, exporter)

    def begin(self, method: str, model: str, request_id: str, metadata: Metadata) -> RequestTrace | None:
        """Starts the trace of a request; None for an untraced one."""
        carrier = {key: value for key, value in metadata if key in _KEYS and isinstance(value, str)}
        parent = self._propagator.extract(carrier) if carrier else None
        sampled = None if parent is None else _sampled(parent)
        if not self.settings.take(model, sampled):
            return None
        attributes = {
            "rpc.system": "grpc",
            "rpc.service": _SERVICE,
            "rpc.method": method,
            "mnserve.model.name": printable(model[:64]),
            "mnserve.request.id": printable(request_id[:64]),
        }
        return RequestTrace(self._tracer, parent, f"{_SERVICE}/{method}", attributes)

    def close(self) -> None:
        """Sends the remaining spans, for a few seconds at most."""
        self._provider.force_flush(_FLUSH_SECONDS * 1000)
        self._provider.shutdown()


def _sampled(parent: Any) -> bool | None:
    """Returns True if the span of the caller is traced; None where the call names no span."""
    from opentelemetry.trace import get_current_span

    caller = get_current_span(parent).get_span_context()
    return caller.trace_flags.sampled if caller.is_valid else None


class RequestTrace:
    """Trace of one request, which starts with the object.

    Args:
        tracer: Makes the spans.
        parent: Context of the caller's span.
        name: Name of the request's span.
        attributes: Attributes of the request's span.
    """

    def __init__(self, tracer: Any, parent: Any, name: str, attributes: Mapping[str, str]) -> None:
        self._tracer, self._parent, self._name = tracer, parent, name
        self._attributes: dict[str, str | int] = dict(attributes)
        self._started = time.time_ns()
        self._admitted = self._started

    def admitted(self) -> None:
        """Notes that the request is decoded and starts to wait."""
        self._admitted = time.time_ns()

    def answered(self, served: Endpoint, rows: int, answer: InferenceResult) -> None:
        """Ends the trace with an answer."""
        self._attributes |= {"mnserve.model.version": served.version, "mnserve.rows": rows}
        span = self._span(0)
        queue_end = self._admitted + answer.queue_ns
        self._child(span, "queue", self._admitted, queue_end)
        times = answer.times
        engine_start = queue_end + times.input_ns
        batch_end = engine_start + times.infer_ns + times.output_ns
        batch = self._child(span, "batch", queue_end, batch_end)
        self._child(batch, "engine", engine_start, engine_start + times.infer_ns)
        span.end(max(batch_end, time.time_ns()))

    def failed(self, error: BaseException) -> None:
        """Ends the trace with the status of an error, or with CANCELLED where the caller left."""
        from opentelemetry.trace import Status, StatusCode

        code = status_code(error) if isinstance(error, Exception) else None
        span = self._span(1 if code is None else code.value[0])  # 1 is CANCELLED
        span.set_attribute("error.type", type(error).__name__)
        span.set_status(Status(StatusCode.ERROR, printable(str(error)[:200])))
        span.end(time.time_ns())

    def _span(self, code: int) -> Any:
        from opentelemetry.trace import SpanKind

        attributes = self._attributes | {"rpc.grpc.status_code": code}
        return self._tracer.start_span(
            self._name, context=self._parent, kind=SpanKind.SERVER, attributes=attributes, start_time=self._started
        )

    def _child(self, parent: Any, name: str, start: int, end: int) -> Any:
        from opentelemetry.trace import set_span_in_context

        span = self._tracer.start_span(name, context=set_span_in_context(parent), start_time=start)
        span.end(end)
        return span

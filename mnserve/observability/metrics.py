"""Counters of the models as Prometheus metrics under Triton's names, over HTTP.

Series exist only for models that the server has loaded, so clients cannot create any.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from errno import EADDRINUSE, EADDRNOTAVAIL
from typing import Any, Final

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mnserve.access.addresses import ABSENT, join_address, socket_addresses
from mnserve.access.refused_calls import RefusedCalls
from mnserve.errors import StartError
from mnserve.models.statistics import FAILURE_REASONS, ModelCounters
from mnserve.observability.gpu_metrics import GpuCollector
from mnserve.observability.metrics_http import MetricsHTTPServer
from mnserve.text.names import printable

_COUNTERS: tuple[tuple[str, str, Callable[[ModelCounters], float]], ...] = (
    ("nv_inference_request_success", "Requests answered", lambda c: c.success.count),
    ("nv_inference_count", "Rows answered", lambda c: c.rows),
    ("nv_inference_exec_count", "Runs of the engine", lambda c: c.runs),
    ("nv_inference_request_duration_us", "Time from arrival to answer", lambda c: c.success.ns / 1e3),
    ("nv_inference_queue_duration_us", "Time spent waiting", lambda c: c.queue.ns / 1e3),
    ("nv_inference_compute_input_duration_us", "Time joining rows", lambda c: c.input.ns / 1e3),
    ("nv_inference_compute_infer_duration_us", "Time in the engine", lambda c: c.infer.ns / 1e3),
    ("nv_inference_compute_output_duration_us", "Time splitting rows", lambda c: c.output.ns / 1e3),
    ("nv_cache_num_hits_per_model", "Requests whose answer was kept", lambda c: c.cache_hit.count),
    ("nv_cache_num_misses_per_model", "Requests whose answer was looked for in vain", lambda c: c.cache_miss.count),
    ("nv_cache_hit_duration_per_model", "Time looking for answers that were kept", lambda c: c.cache_hit.ns / 1e3),
    ("nv_cache_miss_duration_per_model", "Time looking in vain", lambda c: c.cache_miss.ns / 1e3),
)

_METHODS: Final = "GET, HEAD, OPTIONS"
_ATTEMPTS: Final = 10
_INVALID_VERSION: Final = re.compile(r"version=(?![0-9]{1,9}(?:\.[0-9]{1,9}){0,3}[ \t]*(?:[,;]|$))")
"""Version of a format in the header Accept that the library cannot parse."""


class ModelCollector(Collector):
    """Reads the counters for every request of metrics.

    Args:
        counters: Returns the counters of the loaded models.
        refused: Counts the calls that no model was asked for.
    """

    def __init__(self, counters: Callable[[], Iterable[ModelCounters]], refused: RefusedCalls | None = None) -> None:
        self._counters = counters
        self._refused = refused

    def collect(self) -> Iterator[Metric]:
        """Yields one family for each metric, with one sample for each model version."""
        models = list(self._counters())
        for name, text, value in _COUNTERS:
            # Typed "unknown": the library appends _total to the name of a "counter".
            family = Metric(name, text, "unknown")
            for model in models:
                family.add_sample(name, _labels(model), value(model))
            yield family
        failures = Metric("nv_inference_request_failure", "Requests without an answer", "unknown")
        for model in models:
            for reason in FAILURE_REASONS:
                labels = {**_labels(model), "reason": reason}
                failures.add_sample(failures.name, labels, model.failure[reason].count)
        yield failures
        pending = GaugeMetricFamily(
            "nv_inference_pending_request_count", "Requests waiting", labels=("model", "version")
        )
        for model in models:
            pending.add_metric(tuple(_labels(model).values()), model.pending())
        yield pending
        if self._refused is not None:
            refused = Metric("mnserve_refused_calls", "Calls refused before a model was asked", "unknown")
            for reason, count in self._refused.counts.items():
                refused.add_sample(refused.name, {"reason": reason}, count)
            yield refused


def _labels(model: ModelCounters) -> dict[str, str]:
    return {"model": printable(model.name), "version": str(model.version)}


class MetricsServer:
    """Serves ``/metrics`` on every address of a host, each from a thread of its own.

    Args:
        host: Host to bind; ``localhost`` is both loopback addresses.
        port: Port to bind; 0 takes a free one.
        counters: Returns the counters of the loaded models.
        refused: Counts the calls that no model was asked for.

    Raises:
        StartError: The port cannot be bound.
    """

    def __init__(
        self,
        host: str,
        port: int,
        counters: Callable[[], Iterable[ModelCounters]],
        refused: RefusedCalls | None = None,
    ) -> None:
        registry = CollectorRegistry()
        registry.register(ModelCollector(counters, refused))
        registry.register(GpuCollector())
        try:
            self._servers = _bound_servers(host, port)
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise StartError(
                f"cannot serve metrics on {join_address(host, port)}: {reason}; choose another --metrics-port"
            ) from error
        app = _for_reading(_with_readable_accept(make_wsgi_app(registry)))
        self._threads = []
        for server in self._servers:
            server.set_app(app)
            self._threads.append(threading.Thread(target=server.serve_forever, name="metrics", daemon=True))
            self._threads[-1].start()
        self.port: int = self._servers[0].server_port

    def close(self) -> None:
        """Stops serving and frees the port."""
        for server, thread in zip(self._servers, self._threads, strict=True):
            server.shutdown()
            server.server_close()
            thread.join()


def _bound_servers(host: str, port: int) -> list[MetricsHTTPServer]:
    """Binds one port on every address of a host that this machine has."""
    for attempt in range(1, _ATTEMPTS + 1):
        servers: list[MetricsHTTPServer] = []
        taken, absent = port, OSError(EADDRNOTAVAIL, "the host has no address")
        try:
            for family, address in socket_addresses(host, port):
                try:
                    servers.append(MetricsHTTPServer(family, (address[0], taken, *address[2:])))
                except OSError as error:
                    if error.errno not in ABSENT:
                        raise
                    absent = error
                else:
                    taken = servers[0].server_port
            if servers:
                return servers
            raise absent
        except OSError as error:
            for server in servers:
                server.server_close()
            # Of a free port of one address another one may already be in use.
            if port or not servers or error.errno != EADDRINUSE or attempt == _ATTEMPTS:
                raise
    raise AssertionError("the last attempt returns or raises")


def _for_reading(app: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps an app so that it answers GET, HEAD (with the headers of GET) and OPTIONS, and refuses other methods."""

    def answer(environ: dict[str, Any], start_response: Any) -> Any:
        method = environ["REQUEST_METHOD"]
        if method == "GET":
            return app(environ, start_response)
        if method == "HEAD":
            environ["REQUEST_METHOD"] = "GET"
            head: list[Any] = []
            length = sum(map(len, app(environ, lambda status, headers, *_: head.extend((status, headers)))))
            start_response(head[0], [*head[1], ("Content-Length", str(length))])
            return []
        status = "200 OK" if method == "OPTIONS" else "405 Method Not Allowed"
        text = b"" if method == "OPTIONS" else f"metrics are read with {_METHODS}\n".encode()
        start_response(status, [("Allow", _METHODS), ("Content-Type", "text/plain; charset=utf-8")])
        return [text]

    return answer


def _with_readable_accept(app: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps an app so that it answers in its default format where the header Accept has an invalid version."""

    def answer(environ: dict[str, Any], start_response: Any) -> Any:
        if _INVALID_VERSION.search(environ.get("HTTP_ACCEPT", "")):
            del environ["HTTP_ACCEPT"]
        return app(environ, start_response)

    return answer

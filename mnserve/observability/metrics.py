"""Counters of the models as Prometheus metrics under Triton's names.

Series exist only for models that the server has loaded, so clients cannot create any.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from mnserve.access.refused_calls import RefusedCalls
from mnserve.models.statistics import FAILURE_REASONS, ModelCounters
from mnserve.observability.gpu_metrics import GpuCollector
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


class MetricsPage:
    """Text of all metrics.

    Args:
        counters: Returns the counters of the loaded models.
        refused: Counts the calls that no model was asked for.
    """

    def __init__(self, counters: Callable[[], Iterable[ModelCounters]], refused: RefusedCalls | None = None) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(ModelCollector(counters, refused))
        self._registry.register(GpuCollector())

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """Reads all metrics; takes a while, so that it is something for a thread.

        Args:
            accept: Header ``Accept`` of the request; the default format where its version is invalid.

        Returns:
            The text, and its type.
        """
        encode, media_type = choose_encoder("" if _INVALID_VERSION.search(accept) else accept)
        return encode(self._registry), media_type

"""Metrics of the GPUs of this machine under Triton's names, where a driver tells them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mnserve.engines.nvml import GpuReading, Nvml

_GAUGES: Final[tuple[tuple[str, str, Callable[[GpuReading], float | None]], ...]] = (
    ("nv_gpu_utilization", "Part of the time in which the GPU computed", lambda gpu: gpu.utilization),
    ("nv_gpu_memory_total_bytes", "Memory of the GPU", lambda gpu: gpu.total_bytes),
    ("nv_gpu_memory_used_bytes", "Memory of the GPU in use", lambda gpu: gpu.used_bytes),
    ("nv_gpu_power_usage", "Power that the GPU takes, in watts", lambda gpu: gpu.watts),
)


class GpuCollector(Collector):
    """Reads the GPUs for every request of metrics; without a driver there is no series.

    Args:
        nvml: Asks the driver; None for that of this machine.
    """

    def __init__(self, nvml: Nvml | None = None) -> None:
        self._nvml = Nvml() if nvml is None else nvml

    def describe(self) -> Iterable[Metric]:
        """Returns nothing, so that no driver is asked when the collector is registered."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yields one family for each value that some GPU tells, with one sample for each of these GPUs."""
        readings = self._nvml.readings()
        for name, text, value in _GAUGES:
            family = GaugeMetricFamily(name, text, labels=("gpu_uuid",))
            for reading in readings:
                if (number := value(reading)) is not None:
                    family.add_metric((reading.uuid,), number)
            if family.samples:
                yield family

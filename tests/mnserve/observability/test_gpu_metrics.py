"""Metrics of GPUs: what a driver tells, and nothing where it fails."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any
from urllib.request import urlopen

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from mnserve.http.metrics import MetricsServer
from mnserve.observability.gpu_metrics import GpuCollector


class Driver:
    """Stands for NVIDIA's module: two GPUs, and functions that fail on demand."""

    def __init__(self) -> None:
        self.started = 0
        self.failing: set[str] = set()
        self.message = "Not Supported"

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml"):
            raise AttributeError(name)

        def call(handle: int = 0) -> Any:
            if name in self.failing:
                raise RuntimeError(self.message)
            if name == "nvmlInit":
                self.started += 1
            return {
                "nvmlInit": None,
                "nvmlDeviceGetCount": 2,
                "nvmlDeviceGetHandleByIndex": handle,
                "nvmlDeviceGetUUID": "GPU-a" if handle == 0 else b"GPU-b",
                "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=25 * (handle + 1)),
                "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=2**30 * (handle + 1), total=2**34),
                "nvmlDeviceGetPowerUsage": 61_500,
            }[name]

        return call


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    found = Driver()
    monkeypatch.setitem(sys.modules, "pynvml", found)
    return found


def page(collector: GpuCollector) -> str:
    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry).decode()


def test_every_gpu_has_its_values_under_tritons_names(driver: Driver) -> None:
    text = page(GpuCollector())
    for line in (
        'nv_gpu_utilization{gpu_uuid="GPU-a"} 0.25',
        'nv_gpu_utilization{gpu_uuid="GPU-b"} 0.5',
        'nv_gpu_memory_used_bytes{gpu_uuid="GPU-b"} 2.147483648e+09',
        'nv_gpu_memory_total_bytes{gpu_uuid="GPU-a"} 1.7179869184e+10',
        'nv_gpu_power_usage{gpu_uuid="GPU-a"} 61.5',
    ):
        assert line in text
    assert driver.started == 1


def test_what_a_gpu_does_not_tell_is_left_out(driver: Driver) -> None:
    driver.failing = {"nvmlDeviceGetPowerUsage"}
    text = page(GpuCollector())
    assert "nv_gpu_power_usage" not in text
    assert text.count("nv_gpu_utilization{") == 2
    driver.failing = {"nvmlDeviceGetUUID"}
    assert page(GpuCollector()) == ""


def test_a_driver_that_has_gone_is_started_again_once_it_is_back(driver: Driver) -> None:
    collector = GpuCollector()
    driver.failing = {"nvmlInit"}
    assert page(collector) == ""
    driver.failing = set()
    assert "GPU-a" in page(collector)
    driver.failing, driver.message = {"nvmlDeviceGetCount"}, "Uninitialized"
    assert page(collector) == ""
    driver.failing = set()
    assert "GPU-b" in page(collector)
    assert driver.started == 2


def test_metrics_are_read_with_a_failing_driver_and_without_its_package(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.failing = {"nvmlInit"}
    server = MetricsServer("127.0.0.1", 0, lambda: [])
    try:
        url = f"http://127.0.0.1:{server.port}/metrics"
        assert b"nv_inference_pending_request_count" in urlopen(url, timeout=20).read()
        driver.failing = set()
        assert b'nv_gpu_utilization{gpu_uuid="GPU-a"} 0.25' in urlopen(url, timeout=20).read()
    finally:
        server.close()
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert page(GpuCollector()) == ""

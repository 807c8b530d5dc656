"""Surroundings of a server: what is counted, and why."""

from __future__ import annotations

from typing import Any

import pytest

from mnserve.checking import surroundings
from mnserve.checking.surroundings import Cpus, look_around, reports_usage
from mnserve.engines import providers


@pytest.mark.parametrize(
    ("affinity", "quota", "words"),
    [
        (4, None, "the affinity mask has 4 of the machine's 8, and no control group has a quota"),
        (4, 1.5, "has a quota of 1.5; the smaller counts"),
        (2, 2.0, "has a quota of 2; which is the same"),
    ],
)
def test_the_number_of_cpus_has_a_reason(affinity: int, quota: float | None, words: str) -> None:
    assert words in Cpus(counted=1, machine=8, affinity=affinity, quota=quota).why


def test_versions_memory_and_cpus_of_this_process_are_found() -> None:
    found = look_around()
    assert next(iter(found.versions)) == "mn-runtime"
    assert {"onnxruntime", "grpcio", "protobuf", "numpy"} <= found.versions.keys()
    assert 1 <= found.cpus.counted <= found.cpus.affinity <= found.cpus.machine
    assert found.memory > 2**20
    assert found.memory_limit is None or found.memory_limit < found.memory


@pytest.mark.parametrize(("limit", "told"), [(None, None), (2**63 - 4096, None), (2**20, 2**20)])
def test_a_limit_above_the_memory_of_the_machine_is_none(
    monkeypatch: pytest.MonkeyPatch, limit: int | None, told: int | None
) -> None:
    monkeypatch.setattr(surroundings, "memory_limit", lambda: limit)
    assert look_around().memory_limit == told


@pytest.mark.parametrize(("value", "on"), [("1", False), ("TRUE", False), ("0", True), ("false", True), ("", True)])
def test_the_variable_of_telemetry_is_read_as_onnx_runtime_reads_it(
    monkeypatch: pytest.MonkeyPatch, value: str, on: bool
) -> None:
    monkeypatch.setenv("ORT_DISABLE_TELEMETRY", value)
    assert reports_usage() is on


def test_two_builds_of_onnx_runtime_are_warned_about(monkeypatch: pytest.MonkeyPatch) -> None:
    class Distribution:
        version = "1"

        def __init__(self, name: str) -> None:
            self.metadata: dict[str, Any] = {"Name": name}

    names = ("onnxruntime", "onnxruntime_gpu", "onnxruntime-ep-nv-tensorrt-rtx-cu13")
    monkeypatch.setattr(providers, "distributions", lambda: [Distribution(name) for name in names])
    assert look_around().warnings == (
        "onnxruntime, onnxruntime-gpu are installed over each other: pip uninstall onnxruntime onnxruntime-gpu, then "
        "install one again",
    )
    monkeypatch.setattr(providers, "distributions", lambda: [Distribution(name) for name in names[1:]])
    assert look_around().warnings == ()

"""Execution providers: they start, or what they lack is told."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import onnx
import pytest

from mnserve.checking import providers
from mnserve.checking.providers import PROBE_MODEL, check_providers
from mnserve.engines.base import EngineOptions
from mnserve.engines.provider_libraries import MissingLibrary
from mnserve.engines.providers import CUDA
from mnserve.engines.runtime import onnxruntime as ort
from mnserve.errors import EngineLoadError

CPU = "CPUExecutionProvider"


@pytest.fixture
def with_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ort, "get_available_providers", lambda: [CUDA, CPU])


def test_the_tiny_model_is_valid() -> None:
    model = onnx.load_from_string(PROBE_MODEL)
    onnx.checker.check_model(model, full_check=True)
    assert [node.op_type for node in model.graph.node] == ["Mul"]


def test_a_provider_of_the_build_starts() -> None:
    reports = {report.name: report for report in check_providers(EngineOptions())}
    assert (reports[CPU].starts, reports[CPU].reason) == (True, "")
    assert "AzureExecutionProvider" not in reports


def test_no_folder_has_to_be_writable(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose file system is read-only."""

    def refuse(*arguments: Any, **named: Any) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "mkdir", refuse)
    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    assert check_providers(EngineOptions())[0].starts


@pytest.mark.skipif(CUDA in ort.get_available_providers(), reason="this build has CUDA")
def test_a_provider_that_the_build_lacks_is_told_with_the_remedy() -> None:
    first, *others = check_providers(EngineOptions(providers=(CUDA, CPU)))
    assert (first.name, first.starts) == (CUDA, False)
    assert "pip uninstall onnxruntime, then pip install '.[serve-gpu]'" in first.reason
    assert [report.starts for report in others] == [True]


def test_a_provider_without_its_libraries_is_not_started(with_cuda: None, monkeypatch: pytest.MonkeyPatch) -> None:
    lacks = (MissingLibrary(library="libcuda.so.1", remedy="install NVIDIA's driver"),)
    monkeypatch.setattr(providers, "missing_libraries", lambda name: lacks if name == CUDA else ())
    monkeypatch.setattr(providers, "_run_probe", lambda name, options: "" if name == CPU else str(1 / 0))
    reports = {report.name: report for report in check_providers(EngineOptions())}
    assert (reports[CUDA].starts, reports[CUDA].missing) == (False, lacks)
    assert reports[CUDA].reason == "it lacks libcuda.so.1"
    assert reports[CPU].starts


def test_a_provider_that_does_not_compute_has_the_reason_of_the_engine(
    with_cuda: None, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    class Engine:
        def __init__(self, path: Any, options: EngineOptions) -> None:
            if options.providers == (CUDA,):
                error = "[E:onnxruntime:Default, a.cc:1 f] b.cc:2 [ONNXRuntimeError] : 1 : FAIL : too old"
                os.write(2, f"\x1b[1;31m2026 {error}\n".encode())
                os.write(2, b"\x1b[0;93m2026 [W:onnxruntime:Default, c.cc:3 g] install something\x1b[m\n")
                raise EngineLoadError(f"no device for {path}")

        def run(self, feeds: Any, outputs: Any) -> None:
            assert outputs == ["y"]

        def close(self) -> None: ...

    monkeypatch.setattr(providers, "OnnxRuntimeEngine", Engine)
    reports = {report.name: report for report in check_providers(EngineOptions())}
    assert (reports[CUDA].starts, reports[CUDA].reason) == (False, "no device (too old)")
    assert reports[CPU].starts
    assert capfd.readouterr().err == ""

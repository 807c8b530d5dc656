"""NVIDIA's own load generator against a server of this one: single calls, a stream, and shared memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import perf_analyzer
import pytest


@pytest.fixture(scope="module")
def binary() -> Path:
    """Fetch the binary unless it is there."""
    try:
        found = perf_analyzer.fetch()
        perf_analyzer.check_binary(found)
    except (perf_analyzer.BenchmarkError, OSError) as error:
        pytest.skip(str(error))
    return found


@pytest.fixture(autouse=True)
def unsteady(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accept latencies that do not agree, which is up to the machine and not the server."""
    monkeypatch.setattr(perf_analyzer, "STABLE_PERCENT", 999)


@pytest.mark.usefixtures("binary")
def test_calls_streams_and_shared_memory_are_measured(run_script: Callable[..., Any], tmp_path: Path) -> None:
    ways = ["--streaming", "--shared-memory", "system"]
    small = ["--concurrency", "2", "--batch", "3", "--seconds", "0.3"]
    done = run_script("perf_analyzer", *ways, *small, "--json", tmp_path / "perf.json")
    assert done.code == 0, done.stderr
    results = json.loads((tmp_path / "perf.json").read_text())["results"]
    assert [one["way"] for one in results] == ["calls", "stream", "shared memory"]
    assert all(one["Inferences/Second"] > 0 for one in results)
    assert all(f"\n{way}" in done.stdout for way in ("calls", "stream", "shared memory"))


def test_tensors_do_lie_in_shared_memory(binary: Path, tmp_path: Path) -> None:
    model = perf_analyzer.make_repository(tmp_path)
    fields = {"model": model, "concurrency": 1, "batch": 1, "seconds": 0.3}
    with perf_analyzer.server(tmp_path, "--shared-memory", "off") as address:
        assert perf_analyzer.measure(binary, address, way="calls", **fields)["Inferences/Second"] > 0
        with pytest.raises(perf_analyzer.BenchmarkError, match="shared memory is switched off"):
            perf_analyzer.measure(binary, address, way="shared memory", **fields)


def test_wrong_usage_exits_with_2(run_script: Callable[..., Any]) -> None:
    for words in (["--shared-memory", "cuda"], ["--concurrency", "x"], ["repository"]):
        assert run_script("perf_analyzer", *words).code == 2

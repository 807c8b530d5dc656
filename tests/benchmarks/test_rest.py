"""Throughput over HTTP beside gRPC: a short run against a real server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("h2load") is None, reason="h2load is not installed")
def test_every_way_is_measured_in_every_round(tmp_path: Path) -> None:
    words = [
        "--callers",
        "2",
        "--widths",
        "16",
        "--rounds",
        "2",
        "--seconds",
        "0.4",
        "--json",
        str(tmp_path / "rest.json"),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "rest", *words, "--options", "--front-ends", "0"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "benchmarks")))},
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "rest.json").read_text())["rows"]
    assert [row["way"] for row in rows] == ["gRPC", "HTTP, binary tensors", "HTTP, JSON"]
    assert all(row["rate"] > 0 and 0 < row["p50"] <= row["p99"] and len(row["ratios"]) == 2 for row in rows)
    assert rows[0]["ratio"] == 1

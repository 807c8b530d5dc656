"""The scripts that print the published figures still run, on a very small scale."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run(*words: str) -> str:
    command = [sys.executable, *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_training_cost(tmp_path: Path) -> None:
    small = ["--batch", "4", "--size", "8", "--entries", "8,16", "--seconds", "0.05", "--rounds", "2", "--threads", "1"]
    out = run("benchmarks/training_cost.py", *small, "--json", str(tmp_path / "cost.json"))
    models = json.loads((tmp_path / "cost.json").read_text())["models"]
    assert [model["model"] for model in models] == ["vanilla", "MN, S = 8", "MN, S = 16"]
    assert models[0]["ratio"]["median"] == 1
    assert "ratio to vanilla" in out

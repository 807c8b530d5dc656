"""The whole benchmarks/gpu_inference.py, on the CPU and a very small scale."""

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SMALL = ["--models", "convnet4-4-16", "--width", "0.2", "--size", "16", "--seconds", "0.02", "--rounds", "2"]
WORDS = [*SMALL, "--device", "cpu", "--minutes", "2"]
# Runs the script as if these packages were not installed.
WITHOUT = """
import runpy, sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"rich", "jsonargparse", "safetensors", "onnxscript", "sklearn", "kornia", "datasets"}:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Absent())
sys.argv = ["gpu_inference.py", *sys.argv[1:]]
sys.path.insert(0, "benchmarks")
runpy.run_path("benchmarks/gpu_inference.py", run_name="__main__")
"""


Run = Callable[..., Any]


@pytest.fixture
def run(run_script: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the script in this process."""
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "")  # variables set by the script are removed
    return partial(run_script, "gpu_inference")


def figures(file: Path) -> Any:
    return json.loads(file.read_text())


def test_onnx_runtime_gives_parity_and_ratios(run: Run, tmp_path: Path) -> None:
    done = run(*WORDS, "--dtypes", "float32", "--json", str(tmp_path / "gpu.json"))
    assert done.code == 0, done.stderr
    found = figures(tmp_path / "gpu.json")
    assert found["side"] == "ONNX Runtime"
    assert [item["batch"] for item in found["ratios"]] == [1, 8, 32, 128]
    assert all(item["ratio"]["median"] > 0 for item in found["ratios"])
    (parity,) = found["parity"]
    assert parity["passed"]
    assert parity["rows"] == 256
    assert "nothing was skipped" in done.stdout
    assert "TF32 off for parity, off for timing" in done.stdout


def test_pytorch_runs_where_onnx_cannot_be_exported(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT, *WORDS, "--json", str(tmp_path / "gpu.json")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr
    found = figures(tmp_path / "gpu.json")
    assert found["side"] == "PyTorch"
    assert "not installed: onnxscript (exporting to ONNX)" in done.stderr
    assert "not installed: onnxscript, jsonargparse" in done.stdout
    assert [(item["dtype"], item["passed"]) for item in found["parity"]] == [("float32", True), ("float16", True)]
    assert len(found["ratios"]) == 8
    assert "random backbone" in found["models"]["convnet4-4-16"]


def test_checks_that_do_not_fit_the_time_are_listed(run: Run) -> None:
    done = run(*SMALL, "--device", "cpu", "--runtime", "torch", "--minutes", "0.05")
    assert done.code == 1
    assert "convnet4-4-16: no time" in done.stdout
    assert "raise --minutes" in done.stdout


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--models", "x", "--device", "cpu"], 2, "'x' is not BACKBONE-CLASSES-ENTRIES"),
        (["--models", "convnet4-9-4", "--device", "cpu"], 2, "as many entries"),
        ([*WORDS, "--models", "convnet4-4-16", "bogus-4-16"], 2, "'bogus', which is not a backbone; choose from"),
        (["--width", "17", "--device", "cpu"], 2, "backbone.width is 17.0"),
        (["/nowhere", "--device", "cpu"], 2, "there is no artifact in /nowhere"),
        (["--seconds", "0"], 2, "argument --seconds: '0' is not a number above 0"),
        (["--json", "/nowhere/x.json", "--device", "cpu"], 2, "the folder /nowhere does not exist"),
    ],
)
def test_wrong_usage_is_a_sentence(run: Run, words: list[str], code: int, message: str) -> None:
    done = run(*words)
    assert done.code == code
    assert message in done.stderr


def test_a_machine_without_a_gpu_gets_the_remedy(run: Run) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    done = run()
    assert done.code == 1
    assert "try --device cpu" in done.stderr

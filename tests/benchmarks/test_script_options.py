"""Values that scripts refuse before they start a server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def model(tmp_path: Path) -> Path:
    file = tmp_path / "m.onnx"
    file.touch()
    return file


@pytest.mark.parametrize(
    ("script", "words", "message"),
    [
        ("serve_onnx", ["--name", "../../x"], "argument --name: '../../x' is not a name of"),
        ("serve_onnx", ["--name", ".."], "argument --name: '..' is not a name of"),
        ("serve_onnx", ["--name", ""], "argument --name: '' is not a name of"),
        ("serve_onnx", ["--delay-ms", "nan"], "argument --delay-ms: 'nan' is not a number of milliseconds from 0 to"),
        ("serve_onnx", ["--delay-ms", "1e300"], "argument --delay-ms: '1e300' is not a number of milliseconds"),
        ("serve_onnx", ["--max-batch=-1"], "argument --max-batch: '-1' is not a whole number from 0 on"),
        ("serve_onnx", ["--threads", "x"], "argument --threads: 'x' is not a whole number from 0 on"),
        ("serve_onnx", ["--instances", "0"], "argument --instances: '0' is not a whole number above 0"),
        ("front_ends", ["--only", "nonsense"], "argument --only: there is no way 'nonsense'; the ways are raw, 1"),
        ("front_ends", ["--only", ""], "argument --only: there is no way ''; the ways are raw, 1 thread; raw, 2"),
        ("front_ends", ["--callers", "1,x"], "argument --callers: 'x' is not a whole number above 0"),
    ],
)
def test_impossible_values_are_refused_before_any_work(
    run_script: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    model: Path,
    script: str,
    words: list[str],
    message: str,
) -> None:
    monkeypatch.setattr("subprocess.Popen", None)  # nothing is started
    done = run_script(script, model, *words)
    assert done.code == 2
    assert message in done.stderr


@pytest.mark.parametrize("script", ["serve_onnx", "front_ends"])
def test_a_missing_file_is_refused(run_script: Callable[..., Any], tmp_path: Path, script: str) -> None:
    done = run_script(script, tmp_path / "gone.onnx")
    assert done.code == 2
    assert f"there is no file {tmp_path / 'gone.onnx'}" in done.stderr

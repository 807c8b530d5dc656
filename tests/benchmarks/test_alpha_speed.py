"""The script on the speed of Alpha Net runs, on a very small scale."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def test_it_prints_time_and_memory(run_script: Callable[..., Any], tmp_path: Path) -> None:
    words = ["--rows", 120, "--features", 8, "--classes", 12, "--epochs", 1, "--folder", tmp_path]
    done = run_script("heads.alpha_speed", *words, "--json", tmp_path / "speed.json")
    assert done.code == 0, done.stderr
    figures = json.loads((tmp_path / "speed.json").read_text())
    assert figures["modules"] == 6
    assert all(len(figures[name]) == 2 for name in ("prepare_s", "first_epoch_s", "epoch_s"))
    assert figures["peak_bytes"] > 2**20
    assert "6 modules on 120 × 8 memory-mapped features." in done.stdout
    assert not list(tmp_path.glob("tmp*"))


@pytest.mark.parametrize("words", [["--classes", 3], ["--classes", 20, "--rows", 19]])
def test_classes_without_rows_are_refused(run_script: Callable[..., Any], words: list[object]) -> None:
    done = run_script("heads.alpha_speed", *words)
    assert done.code == 2
    assert "--classes is from 4 to --rows" in done.stderr

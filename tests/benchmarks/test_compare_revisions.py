"""Comparison of two checkouts: ratios of rounds in alternating order, and commands that run in their own tree."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import compare_revisions
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Order of the measured checkouts; their commands are replaced: 1 ms a call here, 2 there."""
    measured: list[str] = []

    def run(checkout: compare_revisions.Checkout, command: str, *words: str) -> None:
        if command == "mnserve":
            measured.append("this" if checkout.root == ROOT else "other")
            model = {"p50_ms": 1.0 if checkout.root == ROOT else 2.0, "images_per_second": 10.0}
            Path(words[words.index("--json") + 1]).write_text(json.dumps({"results": [{"batch": 1, "model": model}]}))

    monkeypatch.setattr(compare_revisions.Checkout, "run", run)
    return measured


def test_ratios_are_this_checkout_over_the_other_in_alternating_order(
    run_script: Callable[..., Any], order: list[str], tmp_path: Path
) -> None:
    (tmp_path / "pyproject.toml").touch()
    file = tmp_path / "speed.json"
    done = run_script("compare_revisions", tmp_path, "--rounds", 3, "--only", "64-callers", "--json", file)
    assert done.code == 0
    assert order == ["this", "other", "other", "this", "this", "other"]
    assert re.search(r"p50, ms +1\.000 / +2\.000 = 0\.50 \(0\.50–0\.50\)$", done.stdout, re.MULTILINE)
    assert len(json.loads(file.read_text())["rounds"]) == 3


def test_a_folder_that_is_no_checkout_is_refused(run_script: Callable[..., Any], tmp_path: Path) -> None:
    done = run_script("compare_revisions", tmp_path)
    assert done.code == 2
    assert "has no pyproject.toml; name the root of a checkout" in done.stderr


def test_commands_of_a_checkout_run_in_its_own_tree(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project.scripts]\nmake = "maker:main"\n')
    (tmp_path / "maker.py").write_text("def main():\n    open('made', 'w').close()\n")
    compare_revisions.Checkout(root=tmp_path).run("make")
    assert (tmp_path / "made").exists()

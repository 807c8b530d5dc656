"""Pythons that cannot be used are told of before anything is installed for them, each trial as it ends."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from distribution import packages
from distribution.environments import python_fault


def test_an_interpreter_that_works_has_no_fault() -> None:
    assert python_fault(sys.executable) == ""


def test_one_that_is_not_there_is_told_with_the_remedy() -> None:
    assert python_fault("python3.99") == (
        "there is no python3.99 here; give the path of one, as in PYTHONS=/opt/python/bin/python3.13"
    )


def test_a_shim_of_a_version_that_is_not_chosen_is_told_by_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """pyenv puts `python3.13` on the path for every version that it has, and it fails unless that one is chosen."""
    shim = tmp_path / "python3.97"
    shim.write_text("#!/bin/sh\necho 'pyenv: python3.97: command not found' >&2\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    fault = f"{shim} does not start: pyenv: python3.97: command not found; give the path of one that does"
    assert python_fault("python3.97") == fault
    archives = [tmp_path / "one.whl", tmp_path / "one.tar.gz"]
    monkeypatch.setattr(packages, "build_archives", lambda *_: archives)
    monkeypatch.setattr(packages, "exempt_loopback", lambda: None)
    monkeypatch.setattr(sys, "argv", ["packages", "--pythons", "python3.97"])
    assert packages.main() == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [f"python3.97, {archive.name}: FAILS: {fault}" for archive in archives]

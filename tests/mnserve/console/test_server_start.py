"""Each start of a server has a name, which all of its processes know."""

from __future__ import annotations

import os
import subprocess
import sys
import types

import pytest

from mnserve.console.server_start import process_id, start_id


def test_a_server_of_one_process_has_another_name_each_time() -> None:
    assert len({start_id() for _ in range(3)}) == 3


def test_front_ends_have_the_name_of_their_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    front_end = types.ModuleType("__main__")
    front_end.__spec__ = types.SimpleNamespace(name="mnserve.processes.front_end_process")  # type: ignore[assignment]
    monkeypatch.setitem(sys.modules, "__main__", front_end)
    assert start_id() == start_id() == process_id(os.getppid())


def test_processes_have_names_of_their_own() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        assert process_id(other.pid) == process_id(other.pid) != process_id(os.getpid())
        other.communicate(b"\n")
    assert process_id(other.pid)  # of one that there is not

"""Signals while modules are imported: the process ends at once, also as the first one of a namespace."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

PATIENCE = 60
"""Seconds within which anything happens on a machine with other work."""
HEEDING = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execvp(sys.argv[1], sys.argv[1:])"
"""Runs a command that heeds SIGINT, which a shell's background jobs ignore. Code between fork and exec would run the
fork handlers of gRPC, where other tests of this process have used it."""
NAMESPACE = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child")


def has_namespaces() -> bool:
    """Whether a process can be the first one of a namespace here."""
    try:
        return subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.fixture
def endless_import(tmp_path: Path) -> Path:
    """Folder with modules whose import tells the id of the process and takes for ever."""
    module = (
        "import os, pathlib, time\n"
        f"pathlib.Path({str(tmp_path / 'new')!r}).write_text(str(os.getpid()))\n"
        f"os.replace({str(tmp_path / 'new')!r}, {str(tmp_path / 'importing')!r})\n"
        "time.sleep(1000)\n"
    )
    for name in ("onnxruntime", "torch"):
        (tmp_path / f"{name}.py").write_text(module)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "number", "first", "code"),
    [
        (["mnserve", "serve", ".", "--front-ends", "0"], signal.SIGTERM, False, 0),
        (["mnserve", "serve", ".", "--front-ends", "0"], signal.SIGINT, False, 0),
        (["mnserve", "serve", ".", "--front-ends", "0"], signal.SIGTERM, True, 0),
        (["mnserve", "serve", ".", "--front-ends", "0"], signal.SIGINT, True, 0),
        (["mnserve", "bench", ".", "m"], signal.SIGTERM, True, 143),
        (["mntrain", "fit", "digits"], signal.SIGTERM, True, 143),
        (["mnexport", "artifact", "repository/m"], signal.SIGTERM, True, 143),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else value.name if isinstance(value, signal.Signals) else "",
)
def test_a_signal_during_imports_ends_the_process(
    endless_import: Path, words: list[str], number: signal.Signals, first: bool, code: int
) -> None:
    if first and not has_namespaces():
        pytest.skip("this machine lets nobody make a namespace of processes")
    path = os.pathsep.join(filter(None, (str(endless_import), os.environ.get("PYTHONPATH", ""))))
    process = subprocess.Popen(
        [sys.executable, "-c", HEEDING, *(NAMESPACE if first else ()), sys.executable, "-m", *words],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    try:
        wait_for((endless_import / "importing").exists, process)
        assert ((endless_import / "importing").read_text() == "1") is first
        os.kill(only_child(process.pid) if first else process.pid, number)
        _, log = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == code, log
    assert "Traceback" not in log
    if words[1] == "serve":
        assert log == "mnserve: stopped before the models were loaded\n"


def only_child(pid: int) -> int:
    """Process that ``unshare`` has started, by its number outside of the namespace."""
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


def wait_for(holds: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.02)

"""The recording to compare with, and a server process for repositories of earlier versions."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from measuring import one_thread
from recordings import Recording, recording_for_this_machine


@pytest.fixture(autouse=True)
def single_thread() -> Iterator[None]:
    """Computes with one thread, as what is recorded was computed."""
    with one_thread():
        yield


@pytest.fixture(scope="session")
def recording() -> Recording:
    """The recording of this machine, or of the one that is most like it."""
    return recording_for_this_machine()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[Path], str]]:
    """Starts ``mnserve serve`` on a repository and returns its address; it ends with the test."""
    started: list[subprocess.Popen[str]] = []

    def start(repository: Path) -> str:
        command = [sys.executable, "-m", "mnserve", "serve", str(repository), "--grpc-port", "0", "--metrics-port", "0"]
        log = tmp_path / "server.log"
        with log.open("w") as stream:
            server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stream, text=True)
        started.append(server)
        assert server.stdout is not None
        words = server.stdout.readline().replace(",", " ").split()
        assert words[:1] == ["serving"], log.read_text()
        return next(word for word in words if word.startswith("grpc://")).removeprefix("grpc://")

    yield start
    for server in started:
        server.kill()
        server.wait()
        assert server.stdout is not None
        server.stdout.close()

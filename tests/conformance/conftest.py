"""A server to talk to: one that is there already (``MN_CONFORMANCE_URL``), or ``mnserve serve`` in a process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

sys.path.insert(0, str(Path(__file__).parent))
from open_inference import request, rows

HERE = Path(__file__).parent
URL = os.environ.get("MN_CONFORMANCE_URL", "").removeprefix("grpc://")
HTTP_URL = os.environ.get("MN_CONFORMANCE_HTTP_URL", "").removeprefix("http://").rstrip("/")
_READY_SECONDS = 60


class OwnServer:
    """``mnserve serve`` on ports of its own."""

    def __init__(self, repository: Path, log: Path, *arguments: str) -> None:
        self._log = log
        command = [sys.executable, "-m", "mnserve", "serve", str(repository), *arguments]
        command += ["--grpc-port", "0", "--metrics-port", "0", "--http-port", "0", "--intra-op-threads", "1"]
        with log.open("w") as errors:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert "grpc://" in line, self.log()
        self.address = line.split("grpc://")[1].split(",")[0].strip()
        self.http_address = line.split("http://")[1].split(",")[0].strip()

    def log(self) -> str:
        """Text that the server wrote to standard error."""
        return self._log.read_text()

    def close(self) -> None:
        """Ends the server, also one that hangs."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The models, written by the command that others use."""
    folder = tmp_path_factory.mktemp("conformance") / "models"
    subprocess.run([sys.executable, str(HERE / "models.py"), str(folder)], check=True)
    return folder


@pytest.fixture(scope="session")
def start_own(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., OwnServer]]:
    """Starts servers that end with the tests: ``start_own("--drain-delay", "1")``."""
    if URL or HTTP_URL:
        pytest.skip("needs a server that the test starts itself, and MN_CONFORMANCE_…URL names another one")
    started: list[OwnServer] = []

    def start(*arguments: str) -> OwnServer:
        server = OwnServer(repository, tmp_path_factory.mktemp("server") / "log", *arguments)
        started.append(server)
        return server

    yield start
    for server in started:
        server.close()


@pytest.fixture(scope="session")
def own_server(start_own: Callable[..., OwnServer]) -> OwnServer:
    """The server under test where it is our own process; tests that read its log need it."""
    return start_own()


@pytest.fixture(scope="session")
def address(request: pytest.FixtureRequest) -> str:
    """HOST:PORT of the server under test."""
    return URL or str(request.getfixturevalue("own_server").address)


@pytest.fixture(scope="session")
def http_address(request: pytest.FixtureRequest) -> str:
    """HOST:PORT of the server under test for HTTP."""
    return HTTP_URL or str(request.getfixturevalue("own_server").http_address)


@pytest.fixture(scope="session")
def channel(address: str) -> Iterator[grpc.Channel]:
    """A connection to it."""
    with grpc.insecure_channel(address) as item:
        grpc.channel_ready_future(item).result(_READY_SECONDS)
        yield item


@pytest.fixture(scope="session")
def stub(channel: grpc.Channel) -> Any:
    """Its calls."""
    return service_pb2_grpc.GRPCInferenceServiceStub(channel)


@pytest.fixture(scope="session")
def turns_a_second(stub: Any) -> float:
    """Speed of the loop of the model ``slow`` in turns per second: the best of several runs.

    On a machine that was busy during the measurement, requests then last longer than asked for, and not shorter.
    """

    def seconds(turns: int) -> float:
        began = time.monotonic()
        stub.ModelInfer(slow_request(turns), timeout=60)
        return time.monotonic() - began

    turns = 500
    while seconds(turns) < 0.1:
        turns *= 2
    return turns / min(seconds(turns) for _ in range(4))


@pytest.fixture(scope="session")
def slow(turns_a_second: float) -> Callable[..., Any]:
    """A request that keeps an engine busy: ``slow(seconds, value)``, with ``model`` small or picky as well."""

    def build(seconds: float, value: float = 1.0, **fields: Any) -> Any:
        return slow_request(int(seconds * turns_a_second), value, **fields)

    return build


def slow_request(turns: int, value: float = 1.0, model: str = "slow", **fields: Any) -> Any:
    """One row for a model with a loop."""
    import numpy as np

    tensors = {"x": rows(value), "turns": np.array([[turns]], dtype="<i8"), **fields.pop("tensors", {})}
    return request(model, tensors, **fields)


@pytest.fixture(scope="session")
def statistics(stub: Any) -> Callable[[str], Any]:
    """Counters of a model, as ModelStatistics has them."""

    def read(model: str) -> Any:
        (found,) = stub.ModelStatistics(pb.ModelStatisticsRequest(name=model)).model_stats
        return found

    return read

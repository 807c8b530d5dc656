"""The life of the server process: how it starts, what stops it from starting, and how it ends."""

from __future__ import annotations

import json
import pkgutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

import mnserve

WriteModel = Callable[..., Path]
StartServer = Callable[..., Any]


def ask(address: str, model: str, value: float, results: list[Any]) -> None:
    """One request with a connection of its own; whether it answers ``value``, or the error, goes into ``results``."""
    with triton.InferenceServerClient(address) as client:
        item = triton.InferInput("x", [1, 4], "FP32")
        item.set_data_from_numpy(np.full((1, 4), value, np.float32))
        try:
            results.append(bool(client.infer(model, [item]).as_numpy("y")[0, 0] == pytest.approx(value)))
        except InferenceServerException as error:
            results.append(error)


@pytest.fixture
def slow_root(write_models: Callable[[Path], None], tmp_path: Path) -> Path:
    """A repository whose model ``slow`` takes its time."""
    write_models(tmp_path)
    return tmp_path


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_and_loses_nothing(start_server: StartServer, slow_root: Path, number: signal.Signals) -> None:
    server = start_server(slow_root, "--log-level", "debug")
    results: list[Any] = []
    callers = [threading.Thread(target=ask, args=(server.address, "slow", value, results)) for value in range(1, 11)]
    for caller in callers:
        caller.start()
    server.wait_for_admitted("slow", 10)
    server.process.send_signal(number)
    for caller in callers:
        caller.join()
    assert server.process.wait(30) == 0
    assert results == [True] * 10
    assert "finishing what was admitted" in server.log()


def test_a_stopping_server_is_not_ready_before_it_refuses(
    start_server: StartServer, repository: Path, double_model: WriteModel
) -> None:
    """During the delay for load balancers requests are answered; after it they are refused."""
    double_model()
    server = start_server(repository, "--drain-delay", "2")
    with triton.InferenceServerClient(server.address) as client:
        assert client.is_server_ready()
        server.process.terminate()
        server.wait_for_log("stopping")
        assert not client.is_model_ready("double")
        assert not client.is_server_ready()
        results: list[Any] = []
        ask(server.address, "double", 3, results)
        assert results == [False]  # an answer: 6 is not 3
        while not isinstance(results[-1], Exception):
            ask(server.address, "double", 3, results)
    assert results[-1].status() == "StatusCode.UNAVAILABLE"
    assert server.process.wait(30) == 0


def test_an_idle_server_needs_no_time_to_drain(
    start_server: StartServer, repository: Path, double_model: WriteModel
) -> None:
    double_model()
    server = start_server(repository, "--drain-timeout", "0")
    server.process.terminate()
    assert server.process.wait(20) == 0
    assert "given up" not in server.log()


def test_a_second_signal_ends_the_server_at_once(
    start_server: StartServer, repository: Path, double_model: WriteModel
) -> None:
    double_model()
    server = start_server(repository, "--drain-delay", "600")
    server.process.terminate()
    server.wait_for_log("stopping")
    server.process.terminate()
    assert server.process.wait(20) == 130


def test_an_ignored_interrupt_stays_ignored(
    start_server: StartServer, repository: Path, double_model: WriteModel
) -> None:
    """A shell starts its background jobs like this: Ctrl-C is not meant for them."""
    double_model()
    server = start_server(repository, prefix=("bash", "-c", 'trap "" INT; exec "$0" "$@"'))
    server.process.send_signal(signal.SIGINT)
    results: list[Any] = []
    ask(server.address, "double", 0, results)  # twice 0 is 0
    assert results == [True]
    assert server.process.poll() is None
    server.process.terminate()
    assert server.process.wait(20) == 0
    assert server.log().count("stopping") == 1


def test_a_signal_during_loading_ends_the_server(slow_root: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "mnserve", "serve", str(slow_root), "--grpc-port", "0", "--metrics-port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    process.stderr.readline()  # the first model is there
    process.terminate()
    _, log = process.communicate(timeout=30)
    assert process.returncode == 0, log
    assert "Traceback" not in log


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mnserve", "serve", *arguments], capture_output=True, text=True, check=False, timeout=60
    )


def test_a_server_without_usable_models_does_not_start(repository: Path, double_model: WriteModel) -> None:
    free = ("--grpc-port", "0", "--metrics-port", "0")
    missing = run(str(repository / "none"), *free)
    assert (missing.returncode, missing.stderr.count("\n")) == (1, 1)
    assert "does not exist" in missing.stderr
    empty = run(str(repository), *free)
    assert (empty.returncode, empty.stderr.count("\n")) == (1, 1)
    assert "has no models" in empty.stderr
    (double_model("broken") / "1" / "model.onnx").write_bytes(b"garbage")
    broken = run(str(repository), *free)
    assert broken.returncode == 1
    assert "no model of" in broken.stderr.splitlines()[-1]
    double_model("good")
    strict = run(str(repository), "--strict", *free)
    assert strict.returncode == 1
    assert "--strict" in strict.stderr.splitlines()[-1]
    assert "Traceback" not in missing.stderr + empty.stderr + broken.stderr + strict.stderr


@pytest.mark.parametrize("option", ["--grpc-port", "--metrics-port"])
def test_a_port_in_use_is_refused_in_one_sentence(repository: Path, double_model: WriteModel, option: str) -> None:
    double_model()
    other_option = "--metrics-port" if option == "--grpc-port" else "--grpc-port"
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        result = run(str(repository), option, port, other_option, "0")
    assert (result.returncode, result.stderr.count("\n")) == (1, 1)
    assert f"127.0.0.1:{port}" in result.stderr
    assert option in result.stderr


def test_the_log_can_be_json(start_server: StartServer, repository: Path, double_model: WriteModel) -> None:
    double_model()
    server = start_server(repository, "--log-format", "json")
    server.process.terminate()
    assert server.process.wait(30) == 0
    entries = [json.loads(line) for line in server.log().splitlines()]
    assert {"time", "level", "logger", "message"} <= set(entries[0])
    assert any("'double' version 1 is ready" in entry["message"] for entry in entries)


def test_mnserve_never_imports_torch_or_the_other_packages() -> None:
    names = [item.name for item in pkgutil.walk_packages(mnserve.__path__, "mnserve.") if "__main__" not in item.name]
    assert "mnserve.server" in names
    code = (
        f"import importlib, sys\nfor name in {names!r}: importlib.import_module(name)\n"
        "print([name for name in ('torch', 'mntrain', 'mnexport') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "[]"

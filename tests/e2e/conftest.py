"""Real server processes for the tests that need one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest


class ServerProcess:
    """``mnserve serve`` on ports of its own, with what it printed.

    Args:
        root: The repository.
        arguments: Further words for the server.
        log: Where its standard error goes.
        prefix: A command that runs it, such as ``unshare``.
        environment: Variables beside those of this process.
        announced: Whether to wait until it serves; otherwise it has no addresses.
    """

    def __init__(
        self,
        root: Path,
        arguments: tuple[str, ...],
        log: Path,
        prefix: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
        announced: bool = True,
    ) -> None:
        self._log = log
        command = [*prefix, sys.executable, "-m", "mnserve", "serve", str(root)]
        ports = ["--grpc-port", "0", "--metrics-port", "0", "--intra-op-threads", "1"]
        if "--front-ends" not in arguments and "MNSERVE_FRONT_ENDS" not in os.environ:
            ports += ["--front-ends", "0"]  # one process starts sooner; set the variable to test with several
        with log.open("w") as stream:
            self.process = subprocess.Popen(
                [*command, *ports, *arguments],
                stdout=subprocess.PIPE,
                stderr=stream,
                text=True,
                env={**os.environ, **(environment or {})},
            )
        assert self.process.stdout is not None
        if not announced:
            return
        self.announcement = self.process.stdout.readline()
        assert self.announcement.startswith("serving"), self.log()
        words = self.announcement.replace(",", " ").split()
        self.address = next(word for word in words if word.startswith("grpc")).partition("://")[2]
        self.metrics = next(word for word in words if word.endswith("/metrics"))

    def log(self) -> str:
        """Standard error so far."""
        return self._log.read_text()

    def wait_for_log(self, text: str, times: int = 1) -> None:
        """Until the log has ``text`` that often."""
        self.wait_until(lambda: self.log().count(text) >= times)

    def wait_for_metric(self, name: str, value: float) -> None:
        """Until a metric has reached ``value``."""

        def reached() -> bool:
            with urllib.request.urlopen(self.metrics) as response:
                lines = response.read().decode().splitlines()
            return any(line.startswith(name) and float(line.rsplit(" ", 1)[1]) >= value for line in lines)

        self.wait_until(reached)

    def wait_for_admitted(self, model: str, count: int) -> None:
        """Until ``count`` requests were taken up by a model; needs ``--log-level debug``."""

        def reached() -> bool:
            # What runs is looked up first: a request that starts in between is counted too late, never twice.
            running = sum(map(int, re.findall(rf"model '{model}': running (\d+) requests", self.log())))
            return running + self.metric(f'nv_inference_pending_request_count{{model="{model}",version="1"}}') >= count

        self.wait_until(reached)

    def metric(self, name: str) -> float:
        """A metric's value, 0 where there is none."""
        with urllib.request.urlopen(self.metrics) as response:
            lines = response.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Until something has come true, half a minute at most."""
        deadline = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.01)

    def close(self) -> None:
        """Ends it, however it is."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture(scope="module")
def start_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., ServerProcess]]:
    """Starts servers that end with the module: ``start_server(repository, "--strict")``."""
    started: list[ServerProcess] = []

    def start(root: Path, *arguments: str, **fields: Any) -> ServerProcess:
        server = ServerProcess(root, arguments, tmp_path_factory.mktemp("server") / "log", **fields)
        started.append(server)
        return server

    yield start
    for server in started:
        server.close()


@pytest.fixture(scope="session")
def write_models() -> Callable[[Path], None]:
    """Writes a repository with one model for each thing that a server can meet.

    double: y = 2 x and z = -x, rows of 4, at most 8 of them. slow: y = x, some tenths of a second a batch. plain: y = x
    without a batch dimension. text: y = x, strings. picky: fails where index > 1. broken: no model at all.
    """
    from onnx import TensorProto, helper, numpy_helper

    def infos(**tensors: tuple[int, list[Any]]) -> list[Any]:
        return [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in tensors.items()]

    def save(root: Path, graph: Any, config: str | None = None) -> None:
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
        folder = root / graph.name / "1"
        folder.mkdir(parents=True)
        (folder / "model.onnx").write_bytes(model.SerializeToString())
        if config is not None:
            (root / graph.name / "config.pbtxt").write_text(config)

    def write(root: Path) -> None:
        rows = (TensorProto.FLOAT, ["batch", 4])
        nodes = [helper.make_node("Add", ["x", "x"], ["y"]), helper.make_node("Neg", ["x"], ["z"])]
        save(root, helper.make_graph(nodes, "double", infos(x=rows), infos(y=rows, z=rows)), "max_batch_size: 8")
        save(root, _slow_graph(rows), "max_batch_size: 8")
        whole = (TensorProto.INT64, [2, 3])
        identity = [helper.make_node("Identity", ["x"], ["y"])]
        save(root, helper.make_graph(identity, "plain", infos(x=whole), infos(y=whole)))
        text = (TensorProto.STRING, ["batch", 1])
        save(root, helper.make_graph(identity, "text", infos(x=text), infos(y=text)))
        gather = [helper.make_node("Gather", ["table", "index"], ["y"])]
        table = numpy_helper.from_array(np.array([1, 2], dtype=np.float32), "table")
        index, value = (TensorProto.INT64, ["batch", 1]), (TensorProto.FLOAT, ["batch", 1])
        save(root, helper.make_graph(gather, "picky", infos(index=index), infos(y=value), [table]))
        (root / "broken" / "1").mkdir(parents=True)
        (root / "broken" / "1" / "model.onnx").write_bytes(b"garbage")

    def _slow_graph(rows: tuple[int, list[Any]]) -> Any:
        """Loops over a multiplication with the identity, widened so that it costs something."""
        width = 256
        body = helper.make_graph(
            [
                helper.make_node("MatMul", ["wide_in", "identity"], ["wide_out"]),
                helper.make_node("Identity", ["go_in"], ["go_out"]),
            ],
            "body",
            infos(
                turn=(TensorProto.INT64, []), go_in=(TensorProto.BOOL, []), wide_in=(TensorProto.FLOAT, [None, None])
            ),
            infos(go_out=(TensorProto.BOOL, []), wide_out=(TensorProto.FLOAT, [None, None])),
        )
        nodes = [
            helper.make_node("MatMul", ["x", "widen"], ["wide"]),
            helper.make_node("Loop", ["turns", "go", "wide"], ["looped"], body=body),
            helper.make_node("MatMul", ["looped", "narrow"], ["y"]),
        ]
        constants = {
            "widen": np.eye(4, width, dtype=np.float32),
            "narrow": np.eye(width, 4, dtype=np.float32),
            "identity": np.eye(width, dtype=np.float32),
            "turns": np.array(30_000, dtype=np.int64),
            "go": np.array(True),
        }
        initializers = [numpy_helper.from_array(array, name) for name, array in constants.items()]
        return helper.make_graph(nodes, "slow", infos(x=rows), infos(y=rows), initializers)

    return write

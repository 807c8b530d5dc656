"""The servers that are compared, each with the same network, batches of up to 32 rows and one thread of the engine."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np
import onnx
from common.loopback import proxy_exemptions
from onnx import TensorProto, helper, numpy_helper

ROOT: Final = Path(__file__).resolve().parents[2]
MAX_ROWS: Final = 32
_START_SECONDS: Final = 90


def write_network(file: Path, width: int) -> None:
    """Write y = x w, with rows of x of some width and rows of y of ten: the time of a call is that of its server."""
    weight = np.random.default_rng(0).normal(size=(width, 10)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "linear",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", width])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 10])],
        [numpy_helper.from_array(weight, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), file)


@contextmanager
def mnserve(network: Path, folder: Path, options: list[str]) -> Iterator[tuple[str, str]]:
    """Run our server; yields its addresses of gRPC and of HTTP."""
    version = folder / "repository" / "m" / "1"
    version.mkdir(parents=True)
    shutil.copy(network, version / "model.onnx")
    (version.parent / "config.pbtxt").write_text(f"max_batch_size: {MAX_ROWS}\ndynamic_batching {{}}\n")
    command = [sys.executable, "-m", "mnserve", "serve", str(folder / "repository"), "--grpc-port", "0"]
    command += ["--http-port", "0", "--metrics-port", "0", "--intra-op-threads", "1", *options]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True)
    try:
        assert server.stdout is not None
        words = server.stdout.readline().replace(",", " ").split()
        if not words:
            raise SystemExit("rest: mnserve did not start")
        grpc = next(word for word in words if word.startswith("grpc://"))
        yield grpc.replace("grpc://", "http://"), next(word for word in words if word.startswith("http://"))
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()


@contextmanager
def mlserver(python: Path, network: Path, folder: Path, ports: tuple[int, int, int]) -> Iterator[str]:
    """Run MLServer in an environment that has it and onnxruntime; yields its address of HTTP."""
    http, grpc, metrics = ports
    model = folder / "mlserver"
    model.mkdir()
    shutil.copy(Path(__file__).with_name("mlserver_model.txt"), model / "mlserver_model.py")
    settings = {"http_port": http, "grpc_port": grpc, "metrics_port": metrics, "debug": False, "parallel_workers": 0}
    (model / "settings.json").write_text(json.dumps({**settings, "host": "127.0.0.1"}))
    batching = {"max_batch_size": MAX_ROWS, "max_batch_time": 0.002}
    named = {"name": "m", "implementation": "mlserver_model.OnnxModel"}
    (model / "model-settings.json").write_text(json.dumps({**named, **batching}))
    environment = os.environ | {"REST_MODEL": str(network), "PYTHONPATH": str(model), "ORT_DISABLE_TELEMETRY": "1"}
    with (folder / "mlserver.log").open("w") as log:
        server = subprocess.Popen(
            [str(python), "-m", "mlserver.cli.main", "start", str(model)],
            env=environment | proxy_exemptions(),
            stdout=log,
            stderr=log,
        )
    try:
        _wait_for(f"http://127.0.0.1:{http}/v2/models/m/ready", server, folder / "mlserver.log")
        yield f"http://127.0.0.1:{http}"
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(_START_SECONDS * 5):
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            if server.poll() is not None:
                break
            time.sleep(0.2)
    raise SystemExit(f"rest: MLServer did not start: {log.read_text()[-1000:]}")

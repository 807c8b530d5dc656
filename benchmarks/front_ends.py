"""Measure the cost of gRPC for Python before any inference, and of other ways to run mnserve.

    python benchmarks/front_ends.py model.onnx
    python benchmarks/front_ends.py model.onnx --rows 32 --callers 4 --only "raw, 1 thread;mnserve"
    python benchmarks/front_ends.py model.onnx --callers 1,64 --seconds 3 --rounds 3 --only "bare;mnserve"

Every way is measured with h2load (Debian's package nghttp2-client), one after the other in each round:

- raw, 1 thread: ONNX Runtime alone, batches of 32 rows, or of 1 where there is one caller with one row
- raw, 2 sessions: the same in two threads
- bare: a grpc.aio server that answers the same bytes without looking at the request
- bare, uvloop: the same on uvloop, where that is installed
- mnserve: one process with one engine thread
- mnserve, 2 instances: one process with two engines
- mnserve, 1 front end: a front end, and an engine process with one engine thread
- mnserve, 2 front ends: two of them, and one engine process

Medians of the rounds; CPU is that of the serving processes, in microseconds for each row.
"""

import argparse
import asyncio
import importlib.util
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import grpc
import numpy as np
from common.loopback import exempt_loopback
from common.options import existing_file, positive_integer, positive_number, script_parser
from rich.console import Console
from soaking.memory import children

from mnserve.engines.runtime import onnxruntime as ort
from mnserve.protocol import service_pb2 as pb
from mntrain.result_table import ResultTable

_SERVERS = {"mnserve": 0, "mnserve, 2 instances": 0, "mnserve, 1 front end": 1, "mnserve, 2 front ends": 2}
"""Number of front ends of each way to run mnserve."""
WAYS = ("raw, 1 thread", "raw, 2 sessions", "bare", "bare, uvloop", *_SERVERS)
_SERVE_ONNX = Path(__file__).with_name("serve_onnx.py")
_BATCH = 32
_FIRST_PORT = 21_300
_METHOD = "inference.GRPCInferenceService/ModelInfer"


def _input(model: Path, rows: int) -> tuple[str, np.ndarray[Any, np.dtype[np.float32]]]:
    """Make rows of noise for a model with one input of floats; returns them with the name of the input."""
    (argument,) = ort.InferenceSession(model).get_inputs()
    shape = [rows, *(size if isinstance(size, int) else 1 for size in argument.shape[1:])]
    return argument.name, np.random.default_rng(0).standard_normal(shape, np.float32)


def _request(model: Path, rows: int) -> pb.ModelInferRequest:
    name, array = _input(model, rows)
    message = pb.ModelInferRequest(model_name="m")
    message.inputs.add(name=name, datatype="FP32", shape=array.shape)
    message.raw_input_contents.append(array.tobytes())
    return message


def _raw(model: Path, rows: int, sessions: int, seconds: float) -> float:
    """Measure the rows a second of ONNX Runtime alone."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    name, array = _input(model, rows)
    ready = [ort.InferenceSession(model, options) for _ in range(sessions)]
    counts = [0] * sessions
    end = time.perf_counter() + seconds

    def run(number: int) -> None:
        while time.perf_counter() < end:
            ready[number].run(None, {name: array})
            counts[number] += rows

    threads = [Thread(target=run, args=(number,)) for number in range(sessions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / seconds


async def _serve_bare(port: int) -> None:
    answer = pb.ModelInferResponse(model_name="m", model_version="1")
    answer.outputs.add(name="y", datatype="FP32", shape=[1, 10])
    answer.raw_output_contents.append(bytes(40))
    data = answer.SerializeToString()

    async def infer(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        return data

    server = grpc.aio.server()
    method: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(infer)
    service, name = _METHOD.split("/")
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {name: method}),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    print("serving", flush=True)
    await server.wait_for_termination()


def _child(words: list[str]) -> int:
    if words[0] == "bare, uvloop":
        import uvloop

        uvloop.run(_serve_bare(int(words[1])))
    else:
        asyncio.run(_serve_bare(int(words[1])))
    return 0


@contextmanager
def _running(way: str, model: Path, port: int) -> Iterator[list[int]]:
    """Start the processes that serve in one way."""
    if way.startswith("bare"):
        command = [sys.executable, __file__, "--child", way, str(port)]
    else:
        words = [str(model), "--port", str(port), "--instances", "2" if "instances" in way else "1"]
        command = [sys.executable, str(_SERVE_ONNX), *words, "--", "--front-ends", str(_SERVERS[way])]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=_environment())
    try:
        assert server.stdout is not None
        if not server.stdout.readline().startswith("serving"):
            raise SystemExit(f"front_ends: {way!r} did not start")
        yield [server.pid, *children(server.pid)]
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()


def _environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}


def _cpu_seconds(processes: list[int]) -> float:
    """Read the CPU time of processes so far, from Linux's files."""
    ticks = 0
    for pid in processes:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _load(port: int, body_file: Path, callers: int, seconds: float, processes: list[int]) -> tuple[float, float]:
    """Load a server; returns calls a second, and microseconds of CPU for each."""
    connections = max(1, callers // 16)
    streams = ["-c", str(connections), "-m", str(max(1, callers // connections))]
    headers = ["-H", "content-type: application/grpc", "-H", "te: trailers", "-d", str(body_file)]
    command = [
        "h2load",
        "-t",
        "1",
        *streams,
        *headers,
        "-D",
        f"{round(seconds * 1000)}ms",
        f"http://127.0.0.1:{port}/{_METHOD}",
    ]
    before = _cpu_seconds(processes)
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    used = _cpu_seconds(processes) - before
    rate = re.search(r"finished in .*?, ([\d.]+) req/s", printed)
    if rate is None or float(rate[1]) == 0:
        raise SystemExit(f"front_ends: h2load did not measure anything: {printed[-300:]}")
    return float(rate[1]), used / (float(rate[1]) * seconds) * 1e6


def _callers(text: str) -> list[int]:
    return [positive_integer(part) for part in text.split(",")]


def _ways(text: str) -> list[str]:
    """List the named ways that can be taken here."""
    named = [way.strip() for way in text.split(";")]
    for way in named:
        if way not in WAYS:
            raise argparse.ArgumentTypeError(f"there is no way {way!r}; the ways are {'; '.join(WAYS)}")
    possible = [way for way in dict.fromkeys(named) if importlib.util.find_spec("uvloop") or "uvloop" not in way]
    if not possible:
        raise argparse.ArgumentTypeError(f"{text!r} needs uvloop, which is not installed")
    return possible


def main() -> int:
    """Run the benchmark; returns the exit code."""
    if sys.argv[1:2] == ["--child"]:
        return _child(sys.argv[2:])
    exempt_loopback()
    parser = script_parser(__doc__)
    parser.add_argument("model", type=existing_file, help="an ONNX file with one input of floats")
    parser.add_argument("--rows", type=positive_integer, default=1, help="of a request (1)")
    parser.add_argument("--callers", type=_callers, default="1,64", help="callers at a time (%(default)s)")
    parser.add_argument("--seconds", type=positive_number, default=3, help="of each measurement (3)")
    parser.add_argument("--rounds", type=positive_integer, default=3, help="(3)")
    parser.add_argument("--only", type=_ways, default=";".join(WAYS), help="ways, separated by semicolons")
    arguments = parser.parse_args()
    if shutil.which("h2load") is None:
        parser.error("there is no h2load; install Debian's package nghttp2-client")
    _measure(arguments)
    return 0


def _measure(arguments: argparse.Namespace) -> None:
    ways = arguments.only
    servers = [way for way in ways if not way.startswith("raw")]
    measurements: dict[tuple[str, int], list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        body_file = Path(folder) / "body"
        data = _request(arguments.model, arguments.rows).SerializeToString()
        body_file.write_bytes(b"\0" + len(data).to_bytes(4, "big") + data)
        ports = {way: _FIRST_PORT + number for number, way in enumerate(servers)}
        running = {way: stack.enter_context(_running(way, arguments.model, ports[way])) for way in servers}
        for _ in range(arguments.rounds):
            for callers in arguments.callers:
                for way in ways:
                    time.sleep(0.3)
                    if way in ports:
                        calls, cpu = _load(ports[way], body_file, callers, arguments.seconds, running[way])
                        measured = calls * arguments.rows, cpu / arguments.rows
                    else:
                        rows = 1 if callers == arguments.rows == 1 else _BATCH
                        rate = _raw(arguments.model, rows, 2 if "2" in way else 1, arguments.seconds)
                        measured = rate, (2 if "2" in way else 1) / rate * 1e6
                    measurements.setdefault((way, callers), []).append(measured)
    table = []
    for (way, callers), values in sorted(measurements.items(), key=lambda item: (item[0][1], ways.index(item[0][0]))):
        rate, cpu = (statistics.median(value[index] for value in values) for index in (0, 1))
        table.append([way, str(callers), f"{rate:,.0f}", f"{cpu:,.0f}"])
    headings = ("way", "callers", "rows/s", "CPU µs a row")
    ResultTable(headings=headings, rows=table, caption="").show(Console(), title=arguments.model.name)


if __name__ == "__main__":
    raise SystemExit(main())

"""Measure what a call costs before any inference, and ways to run mnserve, from default options to one process.

    python benchmarks/front_ends.py model.onnx
    python benchmarks/front_ends.py model.onnx --rows 32 --callers 4 --only "raw, 1 thread;mnserve"
    python benchmarks/front_ends.py model.onnx --callers 1,64 --seconds 3 --rounds 3 --only "bare;mnserve" --json f.json

Every way is measured with h2load (Debian's package nghttp2-client), one after the other in each round:

- raw, 1 thread: ONNX Runtime alone, batches of 32 rows, or of 1 where there is one caller with one row
- raw, 2 threads: the same with two threads within an operator
- raw, 2 sessions: the same in two threads
- bare: a grpc.aio server that answers the same bytes without looking at the request
- bare, uvloop: the same on uvloop, where that is installed
- mnserve: default options
- mnserve, one process: --front-ends 0
- mnserve, 1 front end: --front-ends 1
- mnserve, 2 front ends: --front-ends 2
- mnserve, 2 engine processes: --engine-processes 2
- mnserve, 1 thread: --intra-op-threads 1

Medians of the rounds. CPU is in microseconds for each row: of all serving processes, and of front ends and engine
processes among them. Of raw it is the time of its threads.
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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import grpc
import numpy as np
from common.figures import write_json
from common.loopback import exempt_loopback
from common.options import add_json, existing_file, positive_integer, positive_number, script_parser
from rich.console import Console
from soaking.memory import children

from mnserve.bench.machine import describe_machine
from mnserve.engines.runtime import onnxruntime as ort
from mnserve.protocol import service_pb2 as pb
from mntrain.result_table import ResultTable

OPTIONS = {
    "mnserve": (),
    "mnserve, one process": ("--front-ends", "0"),
    "mnserve, 1 front end": ("--front-ends", "1"),
    "mnserve, 2 front ends": ("--front-ends", "2"),
    "mnserve, 2 engine processes": ("--engine-processes", "2"),
    "mnserve, 1 thread": ("--intra-op-threads", "1"),
}
"""Way to run mnserve -> its options."""
WAYS = ("raw, 1 thread", "raw, 2 threads", "raw, 2 sessions", "bare", "bare, uvloop", *OPTIONS)
_SERVE_ONNX = Path(__file__).with_name("serve_onnx.py")
_BATCH = 32
_SETTLE_SECONDS = 1.0
_ROLES = {"front_end_process": "front ends", "engine_process": "engines"}
"""Module that a process of mnserve runs -> its column."""
_FIRST_PORT = 21_300
_WARM_MS = 1000
_LEAST_ANSWER = 20
"""Least bytes of an answer, so that refusals are noticed."""
_METHOD = "inference.GRPCInferenceService/ModelInfer"


class Figures(NamedTuple):
    """What was measured: rows a second, milliseconds of a call, and microseconds of CPU a row by role."""

    rate: float
    p50: float
    p99: float
    cpu: dict[str, float]


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


def _raw(way: str, model: Path, rows: int, seconds: float) -> Figures:
    """Measure ONNX Runtime alone."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2 if way == "raw, 2 threads" else 1
    name, array = _input(model, rows)
    ready = [ort.InferenceSession(model, options) for _ in range(2 if way == "raw, 2 sessions" else 1)]
    durations: list[float] = []
    end = time.perf_counter() + seconds

    def run(session: Any) -> None:
        while (started := time.perf_counter()) < end:
            session.run(None, {name: array})
            durations.append(time.perf_counter() - started)

    threads = [Thread(target=run, args=(session,)) for session in ready]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rate = len(durations) * rows / seconds
    busy = max(len(ready), options.intra_op_num_threads)
    return Figures(rate, *_percentiles(durations), {"all": busy / rate * 1e6})


def _percentiles(seconds: list[float]) -> tuple[float, float]:
    """Compute the median and the 99th percentile in milliseconds."""
    p50, p99 = np.percentile(seconds, (50, 99)) * 1e3
    return float(p50), float(p99)


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
        command = [sys.executable, str(_SERVE_ONNX), str(model), "--port", str(port), "--", *OPTIONS[way]]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=_environment())
    try:
        assert server.stdout is not None
        if not server.stdout.readline().startswith("serving"):
            raise SystemExit(f"front_ends: {way!r} did not start")
        time.sleep(_SETTLE_SECONDS)  # further front ends start behind the first
        yield [server.pid, *children(server.pid)]
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()


def _environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}


def _cpu_seconds(processes: list[int]) -> dict[str, float]:
    """Read the CPU time of processes so far, from Linux's files: of all, and of each role."""
    seconds = dict.fromkeys(("all", *_ROLES.values()), 0.0)
    for pid in processes:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        used = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        seconds["all"] += used
        command = Path(f"/proc/{pid}/cmdline").read_text()
        for module, role in _ROLES.items():
            if f".{module}\0" in command:
                seconds[role] += used
    return seconds


def _load(port: int, folder: Path, callers: int, seconds: float, processes: list[int]) -> Figures:
    """Load a server with calls of one row."""
    connections, log = max(1, callers // 16), folder / "calls"
    log.unlink(missing_ok=True)
    streams = ["-c", str(connections), "-m", str(max(1, callers // connections))]
    headers = ["-H", "content-type: application/grpc", "-H", "te: trailers", "-d", str(folder / "body")]
    times = ["--warm-up-time", f"{_WARM_MS}ms", "-D", f"{round(seconds * 1000)}ms", "--log-file", str(log)]
    command = ["h2load", "-t", "1", *streams, *headers, *times, f"http://127.0.0.1:{port}/{_METHOD}"]
    before = _cpu_seconds(processes)
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    after = _cpu_seconds(processes)
    rows = [line.split("\t") for line in log.read_text().splitlines()]  # start in µs, status, duration in µs
    durations = [int(row[2]) / 1e6 for row in rows if row[1] == "200"]
    received = re.search(r"\((\d+)\) data", printed)
    # A call that failed is 200 for HTTP, too: it has no message.
    if not durations or received is None or int(received[1]) < _LEAST_ANSWER * len(durations):
        raise SystemExit(f"front_ends: h2load did not measure anything: {printed[-300:]}")
    share = (seconds + _WARM_MS / 1000) / seconds  # CPU was counted during the warm-up, too
    cpu = {role: (spent - before[role]) / share / len(durations) * 1e6 for role, spent in after.items()}
    return Figures(len(durations) / seconds, *_percentiles(durations), cpu)


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
    add_json(parser)
    arguments = parser.parse_args()
    if shutil.which("h2load") is None:
        parser.error("there is no h2load; install Debian's package nghttp2-client")
    _measure(arguments)
    return 0


def _measure(arguments: argparse.Namespace) -> None:
    ways = arguments.only
    servers = [way for way in ways if not way.startswith("raw")]
    measurements: dict[tuple[str, int], list[Figures]] = {}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        data = _request(arguments.model, arguments.rows).SerializeToString()
        (Path(folder) / "body").write_bytes(b"\0" + len(data).to_bytes(4, "big") + data)
        ports = {way: _FIRST_PORT + number for number, way in enumerate(servers)}
        running = {way: stack.enter_context(_running(way, arguments.model, ports[way])) for way in servers}
        for _ in range(arguments.rounds):
            for callers in arguments.callers:
                for way in ways:
                    time.sleep(0.3)
                    if way in ports:
                        figures = _load(ports[way], Path(folder), callers, arguments.seconds, running[way])
                        cpu = {role: spent / arguments.rows for role, spent in figures.cpu.items()}
                        figures = figures._replace(rate=figures.rate * arguments.rows, cpu=cpu)
                    else:
                        rows = 1 if callers == arguments.rows == 1 else _BATCH
                        figures = _raw(way, arguments.model, rows, arguments.seconds)
                    measurements.setdefault((way, callers), []).append(figures)
    ordered = sorted(measurements.items(), key=lambda item: (item[0][1], ways.index(item[0][0])))
    _report(arguments, {key: _median(values) for key, values in ordered})


def _median(values: list[Figures]) -> Figures:
    def middle(read: Callable[[Figures], float]) -> float:
        return statistics.median(map(read, values))

    cpu = {role: statistics.median(value.cpu[role] for value in values) for role in values[0].cpu}
    return Figures(
        middle(lambda value: value.rate), middle(lambda value: value.p50), middle(lambda value: value.p99), cpu
    )


def _report(arguments: argparse.Namespace, medians: dict[tuple[str, int], Figures]) -> None:
    table = [
        [
            way,
            str(callers),
            f"{figures.rate:,.0f}",
            f"{figures.p50:.2f} / {figures.p99:.2f}",
            *(f"{figures.cpu[role]:,.0f}" if figures.cpu.get(role) else "" for role in ("all", *_ROLES.values())),
        ]
        for (way, callers), figures in medians.items()
    ]
    headings = ("way", "callers", "rows/s", "p50 / p99 ms", "CPU µs a row", *_ROLES.values())
    ResultTable(headings=headings, rows=table, caption="").show(Console(), title=arguments.model.name)
    write_json(
        arguments.json,
        {
            "machine": asdict(describe_machine()),
            "model": arguments.model.name,
            "rows": arguments.rows,
            "rounds": arguments.rounds,
            "seconds": arguments.seconds,
            "figures": [{"way": way, "callers": count, **found._asdict()} for (way, count), found in medians.items()],
        },
    )


if __name__ == "__main__":
    raise SystemExit(main())

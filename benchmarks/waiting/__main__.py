"""Measure what the moment gives that an idle engine waits for callers on their way (docs/serving/batching.md).

    PYTHONPATH=benchmarks python -m waiting
    PYTHONPATH=benchmarks python -m waiting --callers 1,64 --networks dense:0 --rounds 7 --seconds 3
    git worktree add ../before REVISION
    PYTHONPATH=benchmarks python -m waiting --before ../before --options --front-ends 0

Two servers hold the same networks: one as it is, the other with a queue delay of a microsecond, which turns the moment
off, or with the sources of another checkout. h2load (Debian's package nghttp2-client) loads them in turn. The networks
take about 20 and 200 us a run (`dense`, whose batches cost little more than one row), and 200 us, 2 and 20 ms
(`convolutions`, whose rows cost the same each). Prints the medians of the rounds, and of their ratios.
"""

import argparse
import os
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

import grpc
import numpy as np
import onnx
from common.figures import write_json
from common.loopback import exempt_loopback
from common.options import add_json, add_timing, positive_integer, script_parser
from rich.console import Console

from mnserve.protocol import service_pb2 as pb
from mnserve.protocol import service_pb2_grpc
from mntrain.result_table import ResultTable
from waiting.load import Measured, load, write_body
from waiting.networks import convolutions, dense, run_seconds

ROOT = Path(__file__).resolve().parents[2]
_NETWORKS = {"dense": dense, "convolutions": convolutions}
_DEFAULT_NETWORKS = "dense:0,dense:20,convolutions:8,convolutions:80,convolutions:450"
_DEFAULT_CALLERS = "1,2,4,8,16,64,256,512"
_FIRST_PORT = 21_400
_OFF = "dynamic_batching { max_queue_delay_microseconds: 1 }\n"
WITH, WITHOUT = "with", "without"


def write_repository(folder: Path, files: list[Path], *, extra: str) -> None:
    """Write a repository of models with batches of up to 64 rows, and further lines in their configurations."""
    for file in files:
        version = folder / file.stem / "1"
        version.mkdir(parents=True)
        (version / "model.onnx").symlink_to(file)
        (version.parent / "config.pbtxt").write_text(f"max_batch_size: 64\n{extra}")


@contextmanager
def serving(checkout: Path, repository: Path, port: int, options: list[str]) -> Iterator[None]:
    """Run a server of a checkout; it is ready when this enters."""
    command = [sys.executable, "-m", "mnserve", "serve", str(repository), "--grpc-port", str(port)]
    command += ["--metrics-port", "0", "--intra-op-threads", "1", *options]
    environment = os.environ | {"PYTHONPATH": str(checkout)}
    server = subprocess.Popen(command, cwd=checkout, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
    try:
        assert server.stdout is not None
        if not server.stdout.readline().startswith(b"serving"):
            raise SystemExit(f"waiting: the server of {checkout} did not start")
        yield
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()


def counts(port: int, model: str) -> tuple[int, int]:
    """Ask a server for the answered rows and the runs of a model so far."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        found = stub.ModelStatistics(pb.ModelStatisticsRequest(name=model), timeout=30).model_stats[0]
    return found.inference_count, found.execution_count


def _measure(port: int, body: Path, model: str, callers: int, seconds: float) -> tuple[Measured, float]:
    before = counts(port, model)
    time.sleep(0.2)
    measured = load(port, body, callers, seconds)
    rows, runs = (after - then for after, then in zip(counts(port, model), before, strict=True))
    if rows < measured.calls:
        raise SystemExit(f"waiting: of {measured.calls} calls of '{model}', {rows} were answered")
    return measured, rows / max(1, runs)


def _ratio(values: list[tuple[Measured, Measured]], name: str) -> str:
    ratios = [getattr(with_, name) / getattr(without, name) for with_, without in values]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})"


def list_of_networks(text: str) -> list[tuple[str, int]]:
    """Read networks such as dense:20, separated by commas."""
    found = []
    for part in text.split(","):
        kind, _, layers = part.partition(":")
        if kind not in _NETWORKS or not layers.isdigit():
            raise argparse.ArgumentTypeError(f"{part!r} is no network such as dense:20 or convolutions:8")
        found.append((kind, int(layers)))
    return found


def _list_of_callers(text: str) -> list[int]:
    return [positive_integer(part) for part in text.split(",")]


def main() -> int:
    """Run the benchmark; returns the exit code."""
    exempt_loopback()
    parser = script_parser(__doc__)
    parser.add_argument("--callers", type=_list_of_callers, default=_DEFAULT_CALLERS, help="(%(default)s)")
    parser.add_argument("--networks", type=list_of_networks, default=_DEFAULT_NETWORKS, help="(%(default)s)")
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="other sources, instead of no moment")
    parser.add_argument("--options", nargs=argparse.REMAINDER, default=[], help="of mnserve serve; last of all")
    add_timing(parser, seconds=2.0, rounds=5, of="network and number of callers")
    add_json(parser)
    arguments = parser.parse_args()
    if shutil.which("h2load") is None:
        parser.error("there is no h2load; install Debian's package nghttp2-client")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        _compare(arguments, Path(folder), stack)
    return 0


def _compare(arguments: argparse.Namespace, folder: Path, stack: ExitStack) -> None:
    files, seconds_of = [], {}
    for kind, layers in arguments.networks:
        files.append(folder / f"{kind}-{layers}.onnx")
        onnx.save(_NETWORKS[kind](layers), files[-1])
        seconds_of[files[-1].stem] = run_seconds(files[-1], 1)
    ports = {WITH: _FIRST_PORT, WITHOUT: _FIRST_PORT + 1}
    for way, port in ports.items():
        other = arguments.before if way == WITHOUT else None
        repository = folder / way
        write_repository(repository, files, extra=_OFF if way == WITHOUT and other is None else "")
        checkout = ROOT if other is None else other.resolve()
        stack.enter_context(serving(checkout, repository, port, arguments.options))
    table, record = [], []
    for file in files:
        body = folder / "body"
        message = pb.ModelInferRequest(model_name=file.stem)
        message.inputs.add(name="x", datatype="FP32", shape=[1, 3, 32, 32])
        message.raw_input_contents.append(np.zeros(3 * 32 * 32, np.float32).tobytes())
        write_body(body, message.SerializeToString())
        for callers in arguments.callers:
            values: list[tuple[Measured, Measured]] = []
            rows: dict[str, list[float]] = {WITH: [], WITHOUT: []}
            for number in range(arguments.rounds):
                found = {}
                for way in sorted(ports, reverse=number % 2 == 0):
                    found[way], joined = _measure(ports[way], body, file.stem, callers, arguments.seconds)
                    rows[way].append(joined)
                values.append((found[WITH], found[WITHOUT]))
            table.append([file.stem, f"{seconds_of[file.stem] * 1e3:.2f}", str(callers), *_cells(values, rows)])
            print(" | ".join(table[-1]), file=sys.stderr, flush=True)
            rounds = [[vars(measured) for measured in pair] for pair in values]
            record.append({"network": file.stem, "callers": callers, "rows_a_run": rows, "rounds": rounds})
    headings = ("network", "ms a run", "callers", "rate", "rate ×", "p50, ms", "p50 ×", "p99 ×", "rows a run")
    caption = "Rate and p50 without the moment; × is with it over without it, the median of the rounds and their range."
    ResultTable(headings=headings, rows=table, caption=caption).show(Console(), title="The moment")
    write_json(arguments.json, record)


def _cells(values: list[tuple[Measured, Measured]], rows: dict[str, list[float]]) -> list[str]:
    """Write the figures of one network and number of callers."""
    rate = statistics.median(without.rate for _, without in values)
    p50 = statistics.median(without.p50 for _, without in values)
    joined = [f"{statistics.median(rows[way]):.1f}" for way in (WITHOUT, WITH)]
    ratios = {name: _ratio(values, name) for name in ("rate", "p50", "p99")}
    return [f"{rate:,.0f}", ratios["rate"], f"{p50:.2f}", ratios["p50"], ratios["p99"], " → ".join(joined)]


if __name__ == "__main__":
    raise SystemExit(main())

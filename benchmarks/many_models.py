"""Measure time and memory until models are served that nobody configured, beside ONNX Runtime alone.

    python benchmarks/many_models.py
    python benchmarks/many_models.py --models 50 --serve-options --no-warm-up

Writes 200 small networks, and one network of about 40 kB that keeps all pixels of large images, without a config.pbtxt.
Each repository is opened once by a process with a session of ONNX Runtime for each file, and once by `mnserve serve`
with default options. Printed are the seconds until all is open or ready, the start of the process included, with the
resident memory then and its peak.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from common.figures import write_json
from common.loopback import exempt_loopback
from common.options import add_json, positive_integer, script_parser
from rich.console import Console
from soaking.memory import children, peak_bytes, resident_bytes
from starting.networks import segmentation_network, small_network, write_models

from mnserve.bench.machine import describe_machine
from mnserve.bench.server_process import server_process
from mnserve.client.blocking import Client
from mntrain.result_table import ResultTable

_OPEN = "--open"
_READY_SECONDS = 600.0
_POLL_SECONDS = 0.05
_MEBIBYTE = 2**20


@dataclass(frozen=True, kw_only=True)
class Start:
    """Cost of a start: seconds until everything is open, and bytes of memory then and at most."""

    seconds: float
    resident: int
    peak: int


def main() -> int:
    """Run the benchmark; returns the exit code."""
    if sys.argv[1:2] == [_OPEN]:
        _open_sessions(Path(sys.argv[2]))
        return 0
    exempt_loopback()
    parser = script_parser(__doc__)
    parser.add_argument("--models", type=positive_integer, default=200, help="number of small networks (200)")
    parser.add_argument("--serve-options", nargs=argparse.REMAINDER, default=[], help="further words for mnserve serve")
    add_json(parser)
    arguments = parser.parse_args()
    sets = {
        f"{arguments.models} small networks": [small_network(seed) for seed in range(arguments.models)],
        "1 network of large images": [segmentation_network()],
    }
    results: dict[str, dict[str, Start]] = {}
    for name, models in sets.items():
        with tempfile.TemporaryDirectory() as folder:
            write_models(Path(folder), models)
            alone, served = _start_alone(Path(folder)), _start_server(Path(folder), arguments.serve_options)
        results[name] = {"ONNX Runtime alone": alone, "mnserve serve": served}
    _show(results)
    record = {name: {way: asdict(start) for way, start in ways.items()} for name, ways in results.items()}
    write_json(arguments.json, {"machine": asdict(describe_machine()), "results": record})
    return 0


def _open_sessions(repository: Path) -> None:
    """Open all models in this process, say so, and wait for the end of the input."""
    from mnserve.engines.runtime import onnxruntime

    files = sorted(repository.glob("*/1/model.onnx"))
    sessions = [onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"]) for file in files]
    print(len(sessions), flush=True)
    sys.stdin.read()


def _start_alone(repository: Path) -> Start:
    began = time.monotonic()
    command = [sys.executable, __file__, _OPEN, str(repository)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        return _cost(began, [process.pid])  # the end of the block closes its input


def _start_server(repository: Path, words: list[str]) -> Start:
    began = time.monotonic()
    with server_process(repository, ["--log-level", "error", *words]) as address, Client(address) as client:
        while not client.server_ready():
            if time.monotonic() - began > _READY_SECONDS:
                raise TimeoutError(f"the server was not ready after {_READY_SECONDS:g} s")
            time.sleep(_POLL_SECONDS)
        return _cost(began, children(os.getpid()))


def _cost(began: float, pids: list[int]) -> Start:
    return Start(seconds=time.monotonic() - began, resident=resident_bytes(pids), peak=peak_bytes(pids))


def _show(results: dict[str, dict[str, Start]]) -> None:
    rows = [
        [name, way, f"{start.seconds:.1f}", f"{start.resident / _MEBIBYTE:.0f}", f"{start.peak / _MEBIBYTE:.0f}"]
        for name, ways in results.items()
        for way, start in ways.items()
    ]
    headings = ("models", "opened by", "seconds", "resident MiB", "peak MiB")
    table = ResultTable(headings=headings, rows=rows, caption=describe_machine().caption)
    table.show(Console(), title="many_models")


if __name__ == "__main__":
    raise SystemExit(main())

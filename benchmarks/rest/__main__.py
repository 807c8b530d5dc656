"""Measure HTTP beside gRPC, and beside MLServer's HTTP, in turns (docs/serving/rest.md).

    PYTHONPATH=benchmarks python -m rest
    PYTHONPATH=benchmarks python -m rest --callers 1,16,64 --widths 16,3072 --rounds 5 --seconds 2
    PYTHONPATH=benchmarks python -m rest --mlserver ~/venvs/mlserver/bin/python

One server of ours takes the same row as gRPC, as HTTP with binary tensors, and as JSON. MLServer takes the JSON: make
its environment with `pip install mlserver onnxruntime`. The network is one small product, so the time is that of the
servers. h2load (Debian's package nghttp2-client) loads one way after the other in every round. Prints medians of the
rounds, and of their ratios to gRPC.
"""

import argparse
import json
import shutil
import socket
import statistics
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

import numpy as np
from common.figures import write_json
from common.loopback import exempt_loopback
from common.options import add_json, add_timing, positive_integer, script_parser
from rich.console import Console

from mnserve.bench.machine import describe_machine
from mnserve.protocol import service_pb2 as pb
from mntrain.result_table import ResultTable
from rest.load import Measured, Way, load
from rest.servers import mlserver, mnserve, write_network

GRPC = "gRPC"


def _numbers(text: str) -> list[int]:
    return [positive_integer(part) for part in text.split(",")]


def main() -> int:
    """Run the benchmark; returns the exit code."""
    exempt_loopback()
    parser = script_parser(__doc__)
    parser.add_argument("--callers", type=_numbers, default="1,16,64", help="(%(default)s)")
    parser.add_argument("--widths", type=_numbers, default="16,3072", help="numbers of a row (%(default)s)")
    parser.add_argument("--mlserver", type=Path, metavar="PYTHON", help="python of an environment with MLServer")
    parser.add_argument("--options", nargs=argparse.REMAINDER, default=[], help="of mnserve serve; last of all")
    add_timing(parser, seconds=2.0, rounds=5, of="way and number of callers")
    add_json(parser)
    arguments = parser.parse_args()
    if shutil.which("h2load") is None:
        parser.error("there is no h2load; install Debian's package nghttp2-client")
    rows = []
    for width in arguments.widths:
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            rows += _compare(arguments, width, Path(folder), stack)
    _show(rows)
    write_json(arguments.json, {"machine": asdict(describe_machine()), "rows": rows})
    return 0


def _compare(arguments: argparse.Namespace, width: int, folder: Path, stack: ExitStack) -> list[dict[str, object]]:
    network = folder / "model.onnx"
    write_network(network, width)
    grpc, http = stack.enter_context(mnserve(network, folder, arguments.options))
    ways = _ways(folder, width, grpc, http)
    if arguments.mlserver is not None:
        other = stack.enter_context(mlserver(arguments.mlserver, network, folder, _free_ports()))
        ways.append(
            Way(name="MLServer, JSON", url=f"{other}/v2/models/m/infer", body=ways[-1].body, headers=ways[-1].headers)
        )
    rows: list[dict[str, object]] = []
    for callers in arguments.callers:
        measured: dict[str, list[Measured]] = {way.name: [] for way in ways}
        for number in range(arguments.rounds):
            for way in ways if number % 2 == 0 else ways[::-1]:
                measured[way.name].append(load(way, callers, arguments.seconds))
                print(f"rest: {width} numbers, {callers} callers, {way.name}", file=sys.stderr)
        for way in ways:
            found = measured[way.name]
            ratios = [one.rate / other.rate for one, other in zip(found, measured[GRPC], strict=True)]
            medians = {name: statistics.median(getattr(one, name) for one in found) for name in ("rate", "p50", "p99")}
            row = {"numbers": width, "callers": callers, "way": way.name, **medians}
            rows.append({**row, "ratio": statistics.median(ratios), "ratios": ratios})
    return rows


def _ways(folder: Path, width: int, grpc: str, http: str) -> list[Way]:
    """Write one row in each form; the last way is JSON."""
    row = np.random.default_rng(1).normal(size=(1, width)).astype(np.float32)
    message = pb.ModelInferRequest(model_name="m", raw_input_contents=[row.tobytes()])
    message.inputs.add(name="x", datatype="FP32", shape=row.shape)
    data = message.SerializeToString()
    tensor = {"name": "x", "datatype": "FP32", "shape": list(row.shape)}
    binary = {"inputs": [{**tensor, "parameters": {"binary_data_size": row.nbytes}}]}
    text = json.dumps({**binary, "parameters": {"binary_data_output": True}}).encode()
    elements = [float(str(number)) for number in row.ravel()]
    bodies = {
        "grpc": b"\0" + len(data).to_bytes(4, "big") + data,
        "binary": text + row.tobytes(),
        "json": json.dumps({"inputs": [{**tensor, "data": elements}]}).encode(),
    }
    files = {name: folder / name for name in bodies}
    for name, body in bodies.items():
        files[name].write_bytes(body)
    call, infer = "inference.GRPCInferenceService/ModelInfer", f"{http}/v2/models/m/infer"
    of_grpc = ("content-type: application/grpc", "te: trailers")
    of_binary = ("content-type: application/octet-stream", f"inference-header-content-length: {len(text)}")
    return [
        Way(name=GRPC, url=f"{grpc}/{call}", body=files["grpc"], headers=of_grpc, grpc=True),
        Way(name="HTTP, binary tensors", url=infer, body=files["binary"], headers=of_binary),
        Way(name="HTTP, JSON", url=infer, body=files["json"], headers=("content-type: application/json",)),
    ]


def _free_ports() -> tuple[int, int, int]:
    with socket.socket() as one, socket.socket() as two, socket.socket() as three:
        for item in (one, two, three):
            item.bind(("127.0.0.1", 0))
        return one.getsockname()[1], two.getsockname()[1], three.getsockname()[1]


def _show(rows: list[dict[str, object]]) -> None:
    table = ResultTable(
        headings=("numbers", "callers", "way", "answers/s", "of gRPC", "p50 ms", "p99 ms"),
        rows=[
            [
                f"{row['numbers']}",
                f"{row['callers']}",
                f"{row['way']}",
                f"{row['rate']:,.0f}",
                f"{row['ratio']:.2f}",
                f"{row['p50']:.2f}",
                f"{row['p99']:.2f}",
            ]
            for row in rows
        ],
        caption="Medians of the rounds; the ratio is the median of those of the rounds.",
    )
    table.show(Console(), title="rest", notes=[])


if __name__ == "__main__":
    raise SystemExit(main())

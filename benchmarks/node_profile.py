"""Where ONNX Runtime's CPU provider spends its time: kinds of nodes of one exported model beside those of another.

    python benchmarks/node_profile.py repository/pacs-mn-ifilm repository/pacs-mn-vanilla
    python benchmarks/node_profile.py repository/digits-mn --batch 1 --runs 200

The optimised graph runs on one thread with ONNX Runtime's own profiler; times are medians over the runs, of the nodes
of a kind together. Shares are of the last model's total.
"""

import argparse
import json
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median

import numpy as np
import onnxruntime as ort
from rich.console import Console

from mnserve.bench.machine import describe_machine
from mntrain.result_table import ResultTable

_DTYPES = {"tensor(uint8)": np.uint8, "tensor(float)": np.float32}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+", help="folders of a repository; the last is compared with")
    parser.add_argument("--batch", type=int, default=8, help="(8)")
    parser.add_argument("--runs", type=int, default=50, help="(50)")
    parser.add_argument("--file", default="model.onnx", help="of the version (model.onnx)")
    parser.add_argument("--json", type=Path, help="file for the figures")
    arguments = parser.parse_args()
    found = {}
    for model in arguments.models:
        file = model / "1" / arguments.file
        found[model.name] = profile(file if file.exists() else model / "1" / "model.onnx", arguments)
    last = sum(milliseconds for _, milliseconds in found[arguments.models[-1].name].values())
    kinds = sorted({kind for kinds in found.values() for kind in kinds}, key=lambda kind: -_most(found, kind))
    rows = [[kind, *(_cell(kinds.get(kind), last) for kinds in found.values())] for kind in kinds]
    totals = (
        (sum(count for count, _ in kinds.values()), sum(spent for _, spent in kinds.values()))
        for kinds in found.values()
    )
    table = ResultTable(
        headings=("node", *found),
        rows=[*rows, ["all", *(_cell(total, last) for total in totals)]],
        caption=f"{describe_machine().caption}, one thread.",
    )
    table.show(Console(), title=f"nodes, ms, share at batch {arguments.batch}")
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2) + "\n")
    return 0


def profile(file: Path, arguments: argparse.Namespace) -> dict[str, tuple[int, float]]:
    """Number of nodes of each kind, and the milliseconds they take together."""
    with tempfile.TemporaryDirectory() as folder:
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        session = ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        feeds = {}
        for item in session.get_inputs():
            shape = [size if isinstance(size, int) else arguments.batch for size in item.shape]
            values = np.random.default_rng(0).random(shape)
            feeds[item.name] = (values * (255 if "int" in item.type else 1)).astype(_DTYPES[item.type])
        for _ in range(5):
            session.run(None, feeds)
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder) / "profile")
        session = ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        for _ in range(arguments.runs):
            session.run(None, feeds)
        events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    spent: dict[tuple[str, str], list[float]] = defaultdict(list)
    for event in events:
        kind = event.get("args", {}).get("op_name")
        if kind and event["name"].endswith("_kernel_time"):
            spent[kind, event["name"]].append(event["dur"] / 1000)
    found: dict[str, tuple[int, float]] = {}
    for (kind, _), times in spent.items():
        count, milliseconds = found.get(kind, (0, 0.0))
        found[kind] = count + 1, milliseconds + median(times)
    return found


def _most(found: dict[str, dict[str, tuple[int, float]]], kind: str) -> float:
    return max(kinds.get(kind, (0, 0.0))[1] for kinds in found.values())


def _cell(item: tuple[int, float] | None, whole: float) -> str:
    if item is None:
        return ""
    count, milliseconds = item
    return f"{count} × {milliseconds / count * 1000:.0f} µs = {milliseconds:.2f} ms ({milliseconds / whole:.0%})"


if __name__ == "__main__":
    sys.exit(main())

"""Profile ONNX Runtime's CPU provider: time of each kind of node, of exported models side by side.

    python benchmarks/node_profile.py repository/pacs-mn-ifilm repository/pacs-mn-vanilla
    python benchmarks/node_profile.py repository/pacs-mn/1/cpu.onnx repository/pacs-mn-vanilla
    python benchmarks/node_profile.py repository/digits-mn --batch 1 --runs 200

The optimised graph runs on one thread with ONNX Runtime's own profiler. A time is the median over the runs of the sum
over all nodes of a kind. Shares are of the last model's total.
"""

import argparse
import json
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median

import numpy as np
from common.figures import write_json
from common.options import add_json, positive_integer, script_parser
from rich.console import Console

from mnserve.bench.machine import describe_machine
from mnserve.engines.runtime import onnxruntime as ort
from mntrain.result_table import ResultTable

_DTYPES = {"tensor(uint8)": np.uint8, "tensor(float)": np.float32}


class NoModelError(Exception):
    """A named model cannot be profiled; the message is one sentence."""


# Nodes whose time is that of the nodes inside them.
_CONTROL = ("If", "Loop", "Scan")


def main() -> int:
    parser = script_parser(__doc__)
    parser.add_argument("models", type=Path, nargs="+", help="of a repository, or files; the last is compared with")
    parser.add_argument("--batch", type=positive_integer, default=8, help="(8)")
    parser.add_argument("--runs", type=positive_integer, default=50, help="(50)")
    parser.add_argument("--file", help="of version 1 of each folder (model.onnx)")
    add_json(parser)
    arguments = parser.parse_args()
    try:
        files = files_of(arguments.models, arguments.file)
        profiles = {name: profile(file, arguments) for name, file in files.items()}
    except NoModelError as error:
        parser.error(str(error))
    last = sum(milliseconds for _, milliseconds in list(profiles.values())[-1].values())
    kinds = sorted({kind for kinds in profiles.values() for kind in kinds}, key=lambda kind: -_most(profiles, kind))
    rows = [[kind, *(_cell(kinds.get(kind), last) for kinds in profiles.values())] for kind in kinds]
    totals = (
        (sum(count for count, _ in kinds.values()), sum(spent for _, spent in kinds.values()))
        for kinds in profiles.values()
    )
    table = ResultTable(
        headings=("node", *profiles),
        rows=[*rows, ["all", *(_cell(total, last) for total in totals)]],
        caption=f"{describe_machine().caption}, one thread.",
    )
    table.show(Console(), title=f"nodes, ms, share at batch {arguments.batch}")
    write_json(arguments.json, profiles)
    return 0


def files_of(models: list[Path], file: str | None) -> dict[str, Path]:
    """Map a name for the table to the ONNX file of each model, in the order given.

    Args:
        models: folders of a repository, or files.
        file: name of the file in version 1 of each folder; None is model.onnx.

    Raises:
        NoModelError: there is no such file, a model is given twice, or ``file`` would be ignored.
    """
    if file is not None and not any(model.is_dir() for model in models):
        raise NoModelError(f"--file is {file!r}, but no folder is given; leave it out")
    files = [_file_of(model, file or "model.onnx") for model in models]
    for index, path in enumerate(files):
        if path.resolve() in [earlier.resolve() for earlier in files[:index]]:
            raise NoModelError(f"{path} is given twice")
    # The shortest name that differs from the others.
    names = [model.resolve().name if model.is_dir() else "/".join(model.parts[-3:]) for model in models]
    return {
        name if names.count(name) == 1 else str(model): file
        for name, model, file in zip(names, models, files, strict=True)
    }


def _file_of(model: Path, file: str) -> Path:
    if model.is_file():
        return model
    if not model.exists():
        raise NoModelError(f"there is no {model}")
    version = model / "1"
    if not (version / file).is_file():
        present = ", ".join(sorted(item.name for item in version.glob("*.onnx"))) or "no ONNX file"
        raise NoModelError(
            f"{model} has no 1/{file} but {present}; what is to be compared across names can be given as files"
        )
    return version / file


def profile(file: Path, arguments: argparse.Namespace) -> dict[str, tuple[int, float]]:
    """Measure each kind of node: number of nodes, and milliseconds of all together.

    Raises:
        NoModelError: ONNX Runtime does not load the file, or its input is of another type.
    """
    with tempfile.TemporaryDirectory() as folder:
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        try:
            session = ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # ONNX Runtime's errors have no common base
            raise NoModelError(f"ONNX Runtime cannot load {file}: {str(error).splitlines()[0]}") from error
        feeds = {}
        for item in session.get_inputs():
            if item.type not in _DTYPES:
                raise NoModelError(f"{file} takes {item.type}; only {', '.join(_DTYPES)} are made up here")
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
        if kind and kind not in _CONTROL and event["name"].endswith("_kernel_time"):
            spent[kind, event["name"]].append(event["dur"] / 1000)
    kinds: dict[str, tuple[int, float]] = {}
    for (kind, _), times in spent.items():
        count, milliseconds = kinds.get(kind, (0, 0.0))
        turns = max(1, round(len(times) / arguments.runs))  # in a loop
        kinds[kind] = count + turns, milliseconds + turns * median(times)
    return kinds


def _most(profiles: dict[str, dict[str, tuple[int, float]]], kind: str) -> float:
    return max(kinds.get(kind, (0, 0.0))[1] for kinds in profiles.values())


def _cell(item: tuple[int, float] | None, total: float) -> str:
    if item is None:
        return ""
    count, milliseconds = item
    return f"{count} × {milliseconds / count * 1000:.0f} µs = {milliseconds:.2f} ms ({milliseconds / total:.0%})"


if __name__ == "__main__":
    sys.exit(main())

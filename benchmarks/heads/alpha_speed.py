"""Time and memory of Alpha Net on stored features that are generated: seconds of an epoch, and peak resident memory.

    PYTHONPATH=benchmarks python -m heads.alpha_speed
    PYTHONPATH=benchmarks python -m heads.alpha_speed --epochs 3 --threads 2 --json alpha.json

Half of the classes are few, with as many rows as the others, so that an epoch takes every row once: half of them few,
half of them negatives. Features are a file of float32 that is memory-mapped. Peak memory is that of the whole process,
with Python, PyTorch and the pages of the mapped file that were resident. CPU seconds are those of all threads, which
other work on the machine changes little.
"""

import argparse
import os
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common.figures import write_json
from common.options import add_json, positive_integer, script_parser
from rich.console import Console
from soaking.memory import peak_bytes

from mnserve.bench.machine import describe_machine
from mntrain.feature_store.store import FeatureSplit
from mntrain.heads.alpha.config import AlphaConfig
from mntrain.heads.alpha.problem import prepare
from mntrain.heads.alpha.rows import AlphaData
from mntrain.heads.alpha.stage import compose_few_classes
from mntrain.heads.alpha.training import AlphaEpoch
from mntrain.heads.classifier import LinearClassifier
from mntrain.heads.groups import ClassGroups
from mntrain.result_table import ResultTable

_BLOCK = 2000
_GIB = 2**30
_SPREAD = 0.06


def main() -> None:
    parser = script_parser(__doc__)
    parser.add_argument("--rows", type=positive_integer, default=100_000, help="(100000)")
    parser.add_argument("--features", type=positive_integer, default=2048, help="(2048)")
    parser.add_argument("--classes", type=positive_integer, default=1000, help="half of them few (1000)")
    parser.add_argument("--epochs", type=positive_integer, default=2, help="(2)")
    parser.add_argument("--threads", type=positive_integer, default=1, help="of PyTorch (1)")
    parser.add_argument("--folder", type=Path, help="folder for the generated file, removed afterwards (a temporary)")
    add_json(parser)
    arguments = parser.parse_args()
    if arguments.classes < 4 or arguments.rows < arguments.classes:
        parser.error("--classes is from 4 to --rows, so that every class has a row")
    torch.set_num_threads(arguments.threads)
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        figures = _measure(arguments, Path(folder) / "features.npy")
    machine = describe_machine()
    _print(figures)
    Console().print(
        f"{machine.cpu}, torch {torch.__version__}, threads: {arguments.threads}, load before: {load:.1f}",
        soft_wrap=True,
    )
    write_json(arguments.json, {"machine": asdict(machine), "load_before": load, **figures})


def _measure(arguments: argparse.Namespace, file: Path) -> dict[str, Any]:
    random = np.random.default_rng(0)
    labels = np.arange(arguments.rows) % arguments.classes
    # Classes overlap, so that losses and gradients are those of a real set.
    centers = random.standard_normal((arguments.classes, arguments.features), np.float32) * np.float32(_SPREAD)
    _write_features(file, labels, centers, random)
    classifier = LinearClassifier(
        weight=centers + random.standard_normal(centers.shape, np.float32) * np.float32(_SPREAD / 2),
        bias=np.zeros(arguments.classes, np.float32),
    )
    few = arguments.classes // 2
    counts = np.where(np.arange(arguments.classes) < arguments.classes - few, 50, 10)  # said to be, for the groups
    data = AlphaData(
        split=FeatureSplit(features=np.load(file, mmap_mode="c"), labels=labels),
        groups=ClassGroups(counts=counts),
        label_names=tuple(f"class {index}" for index in range(arguments.classes)),
    )
    told = Console(stderr=True)
    began = _clocks()
    problem = prepare(data, classifier)
    ends = [_clocks()]

    def note(epoch: AlphaEpoch) -> None:
        ends.append(_clocks())
        elapsed, cpu = ends[-1] - ends[-2]
        told.print(f"epoch {epoch.epoch}: {elapsed:.1f} s, CPU {cpu:.1f} s, loss {epoch.loss:.3f}")

    # The first epoch includes principal components and the first layers' draws.
    compose_few_classes(problem, AlphaConfig(epochs=arguments.epochs + 1), 0, note)
    first, *others = np.diff(ends, axis=0).tolist()
    return {
        "modules": few,
        "rows": arguments.rows,
        "features": arguments.features,
        "prepare_s": (ends[0] - began).tolist(),
        "first_epoch_s": first,
        "epoch_s": np.median(others, axis=0).tolist(),
        "peak_bytes": peak_bytes([os.getpid()]),
    }


def _clocks() -> Any:
    """Read the clock and the CPU time of this process, in seconds."""
    return np.array([time.perf_counter(), time.process_time()])


def _write_features(file: Path, labels: Any, centers: Any, random: np.random.Generator) -> None:
    """Write rows around the centers block by block, so that they are never in memory together."""
    shape = (len(labels), centers.shape[1])
    with file.open("wb") as target:
        np.lib.format.write_array_header_1_0(target, {"descr": "<f4", "fortran_order": False, "shape": shape})
        for start in range(0, len(labels), _BLOCK):
            own = labels[start : start + _BLOCK]
            rows = centers[own] + random.standard_normal((len(own), shape[1]), np.float32)
            target.write(rows.tobytes())


def _print(figures: dict[str, Any]) -> None:
    labels = {
        "prepare_s": "class means and base logits",
        "first_epoch_s": "components, first layers and first epoch",
        "epoch_s": "another epoch",
    }
    rows = [[text, *(f"{seconds:.1f} s" for seconds in figures[name])] for name, text in labels.items()]
    rows.append(["peak resident memory", f"{figures['peak_bytes'] / _GIB:.2f} GiB", ""])
    caption = f"{figures['modules']} modules on {figures['rows']} × {figures['features']} memory-mapped features."
    ResultTable(headings=["", "elapsed", "CPU"], rows=rows, caption=caption).show(Console(), title="Alpha Net")


if __name__ == "__main__":
    main()

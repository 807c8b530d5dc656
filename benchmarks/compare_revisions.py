"""Compare the speed of this checkout with another one, such as the commit before a refactoring, interleaved.

    git worktree add ../before REVISION
    python benchmarks/compare_revisions.py ../before
    python benchmarks/compare_revisions.py ../before --rounds 3 --json speed.json
    python benchmarks/compare_revisions.py ../before --only engine training

Each round runs the same commands with the sources of both checkouts, in alternating order and with the libraries of
this interpreter: `mnserve bench` in process, the same over gRPC with 1 and with 64 callers, and `mntrain fit digits`.
Prints the median of the ratios of the rounds, this checkout over the other one, with their quartiles.
"""

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from common.figures import with_quartiles, write_json
from common.options import add_json, add_timing, script_parser

ROOT = Path(__file__).resolve().parents[1]
_MODEL = "digits"
_BENCH_ROUNDS = 4
_WAYS: Mapping[str, list[str]] = {
    "engine": ["--batch", "1,32"],
    "1-caller": ["--batch", "1", "--grpc"],
    "64-callers": ["--batch", "1", "--grpc", "--concurrency", "64"],
}
_TRAINING = "training"


@dataclass(frozen=True, kw_only=True)
class Checkout:
    """Runs the commands of one source tree."""

    root: Path

    def run(self, command: str, *words: str) -> None:
        """Run a console script of the tree in a process of its own.

        Raises:
            CalledProcessError: the command failed; its messages are on standard error.
        """
        project = tomllib.loads((self.root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        module, _, function = project["scripts"][command].partition(":")
        code = f"import sys; from {module} import {function}; sys.exit({function}())"
        environment = os.environ | {"PYTHONPATH": str(self.root)}
        line = [sys.executable, "-c", code, *words]
        # In the tree: Python looks into the folder that it runs in first, and so do the servers that it starts.
        subprocess.run(line, cwd=self.root, env=environment, stdout=subprocess.DEVNULL, check=True)


def prepare(here: Checkout, work: Path) -> None:
    """Train and export the model that both checkouts serve."""
    here.run("mntrain", "fit", "digits", "--training.epochs", "1", "--name", _MODEL, "--runs", str(work), "--json")
    here.run("mnexport", str(work / _MODEL / "artifact"), str(work / "repository" / _MODEL), "--json")


def measure(checkout: Checkout, work: Path, seconds: float, ways: Collection[str]) -> dict[str, float]:
    """One round of one checkout: milliseconds, or images a second; name of the figure → value."""
    figures = {}
    shared = [str(work / "repository"), _MODEL, "--seconds", f"{seconds:g}", "--rounds", str(_BENCH_ROUNDS)]
    for way, words in _WAYS.items():
        if way not in ways:
            continue
        file = work / "bench.json"
        checkout.run("mnserve", "bench", *shared, *words, "--json", str(file))
        for result in json.loads(file.read_text(encoding="utf-8"))["results"]:
            figures[f"{way}, batch {result['batch']}: p50, ms"] = result["model"]["p50_ms"]
        if "--concurrency" in words:
            figures[f"{way}: images a second"] = result["model"]["images_per_second"]
        file.unlink()
    if _TRAINING in ways:
        epochs = ["--training.epochs", "4", "--overwrite", "--json"]
        checkout.run("mntrain", "fit", "digits", "--name", "timed", "--runs", str(work), *epochs)
        metrics = json.loads((work / "timed" / "metrics.json").read_text(encoding="utf-8"))
        figures["training, 4 epochs of digits: seconds"] = metrics["train_seconds"]
    return figures


def main() -> int:
    """Run the comparison; returns the exit code."""
    import numpy as np

    parser = script_parser(__doc__)
    parser.add_argument("other", type=Path, metavar="CHECKOUT", help="folder of the other source tree")
    add_timing(parser, seconds=2.0, rounds=5, of="way and batch size")
    ways = [*_WAYS, _TRAINING]
    parser.add_argument("--only", nargs="+", choices=ways, default=ways, metavar="WAY", help=f"of {', '.join(ways)}")
    add_json(parser)
    arguments = parser.parse_args()
    if not (arguments.other / "pyproject.toml").is_file():
        parser.error(f"{arguments.other} has no pyproject.toml; name the root of a checkout")
    checkouts = {"this": Checkout(root=ROOT), "other": Checkout(root=arguments.other.resolve())}
    rounds: list[dict[str, dict[str, float]]] = []
    with tempfile.TemporaryDirectory() as folder:
        prepare(checkouts["this"], Path(folder))
        for number in range(arguments.rounds):
            order = sorted(checkouts, reverse=number % 2 == 0)
            rounds.append(
                {name: measure(checkouts[name], Path(folder), arguments.seconds, arguments.only) for name in order}
            )
            print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr, flush=True)
    for figure in rounds[0]["this"]:
        values = {name: [measured[name][figure] for measured in rounds] for name in checkouts}
        ratios = np.divide(values["this"], values["other"])
        q1, median, q3 = np.percentile(ratios, [25, 50, 75])
        middle = {name: float(np.median(row)) for name, row in values.items()}
        print(
            f"{figure:45} {middle['this']:9.3f} / {middle['other']:9.3f} = {with_quartiles(median, q1, q3)}", flush=True
        )
    write_json(arguments.json, {"rounds": rounds})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Test accuracy of every family over the same seeds, and the paired differences to vanilla.

    python benchmarks/accuracy.py fashion-mnist
    python benchmarks/accuracy.py digits --seeds 0,1,2,3,4 --json digits.json
    python benchmarks/accuracy.py cifar10-jpeg --data.path path/to/cifar10-jpeg

Trains what is not there yet (a run that was broken off goes on), so it can be stopped and started again. Further words
are overrides for `mntrain fit`.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from mnserve.bench.machine import describe_machine

FAMILIES = ("vanilla", "meta_neighborhoods")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", help="name or YAML file")
    parser.add_argument("--seeds", default="0,1,2", help="separated by commas (0,1,2)")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of the runs (runs)")
    parser.add_argument("--json", type=Path, help="file for the figures")
    arguments, overrides = parser.parse_known_args()
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    found = {family: [_result(arguments, overrides, family, seed) for seed in seeds] for family in FAMILIES}
    table = Table(title=f"test accuracy, {arguments.recipe}")
    for heading in ("family", *(f"seed {seed}" for seed in seeds), "mean ± std", "minus vanilla, mean ± std", "epochs"):
        table.add_column(heading, justify="left" if heading == "family" else "right")
    baseline = [run["test"]["accuracy"] for run in found["vanilla"]]
    for family, results in found.items():
        accuracies = [run["test"]["accuracy"] for run in results]
        differences = [mine - theirs for mine, theirs in zip(accuracies, baseline, strict=True)]
        table.add_row(
            family,
            *(f"{accuracy:.2%}" for accuracy in accuracies),
            _mean_std(accuracies),
            "" if family == "vanilla" else _mean_std(differences),
            str(results[0]["epochs"]),
        )
    console = Console()
    console.print(table)
    images = found["vanilla"][0]["test"]["examples"]
    console.print(f"{images} test images; {describe_machine().caption}", soft_wrap=True, highlight=False)
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def _result(arguments: argparse.Namespace, overrides: list[str], family: str, seed: int) -> dict:
    name = f"{Path(arguments.recipe).stem}-{family}-seed{seed}"
    folder = arguments.runs / name
    if not (folder / "metrics.json").is_file():
        command = [sys.executable, "-m", "mntrain.cli", "fit", arguments.recipe, "--runs", str(arguments.runs)]
        command += ["--family", family, "--seed", str(seed), "--name", name, *overrides]
        done = subprocess.run([*command, *(["--resume"] if folder.is_dir() else [])], check=False)
        if done.returncode != 0:
            sys.exit(f"accuracy: `mntrain fit` of {name} ended with exit code {done.returncode}")
    return json.loads((folder / "metrics.json").read_text(encoding="utf-8"))


def _mean_std(values: list[float]) -> str:
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.2%} ± {deviation:.2%}"


if __name__ == "__main__":
    main()

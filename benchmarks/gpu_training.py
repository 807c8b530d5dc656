"""Train ResNet-29 on CIFAR-10, vanilla and MN+iFiLM, in bfloat16: throughput, and accuracy within a time.

    python benchmarks/gpu_training.py --data.path path/to/cifar10
    python benchmarks/gpu_training.py --data.path path/to/cifar10 --minutes 3 --json gpu.json
    python benchmarks/gpu_training.py --recipe digits --accelerator cpu --minutes 0.2 --backbone.name convnet4

Each variant is first trained for a few epochs on a part of the images, to measure the time of an epoch. Then it is
trained for as many epochs as fit its share of the minutes (8 by default, for everything). Further words are overrides
for `mntrain fit`.
"""

import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.figures import write_json
from common.options import add_json, positive_integer, positive_number, script_parser
from rich.console import Console
from rich.table import Table

from mnserve.bench.machine import describe_machine

VARIANTS = {
    "vanilla": ["--family", "vanilla"],
    "MN+iFiLM": ["--family", "meta_neighborhoods", "--backbone.ifilm", "true"],
}
# Part of a variant's share; the rest is for probing and loading data, whose time is not known before.
_RESERVE = 0.85
_PROBED = 12_800


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Recipe and time of the trainings.

    Args:
        recipe: name or YAML file.
        overrides: overrides for every run.
        seconds: time for everything.
        runs: folder of the runs.
    """

    recipe: str
    overrides: list[str]
    seconds: float
    runs: Path


def main() -> None:
    parser = script_parser(__doc__)
    parser.add_argument("--recipe", default="cifar10-resnet29", help="name or YAML file (cifar10-resnet29)")
    parser.add_argument("--minutes", type=positive_number, default=8.0, help="for everything (8)")
    parser.add_argument("--accelerator", default="cuda", help="cuda or cpu (cuda)")
    parser.add_argument("--precision", default="bf16-mixed", help="(bf16-mixed)")
    parser.add_argument("--probe", type=positive_integer, default=_PROBED, help=f"images of the probe ({_PROBED})")
    add_json(parser)
    arguments, overrides = parser.parse_known_args()
    overrides += ["--training.accelerator", arguments.accelerator, "--training.precision", arguments.precision]
    console = Console()
    from mntrain.errors import MnTrainError

    with tempfile.TemporaryDirectory() as folder:
        plan = Plan(recipe=arguments.recipe, overrides=overrides, seconds=arguments.minutes * 60, runs=Path(folder))
        try:
            rows = _measure(plan, arguments.probe, console)
        except MnTrainError as error:
            sys.exit(f"gpu_training: {error}")
    table = Table(title=f"{arguments.recipe}, {arguments.precision}, {arguments.minutes:g} minutes")
    for heading in ("model", "images/s", "epochs", "training s", "peak MB", "test accuracy", "unadapted"):
        table.add_column(heading, justify="left" if heading == "model" else "right")
    for row in rows:
        before = row["unadapted_accuracy"]
        table.add_row(
            row["model"],
            f"{row['images_per_second']:.0f}",
            str(row["epochs"]),
            f"{row['train_seconds']:.0f}",
            "–" if row["peak_bytes"] is None else f"{row['peak_bytes'] / 2**20:.0f}",
            f"{row['accuracy']:.2%}",
            "–" if before is None else f"{before:.2%}",
        )
    console.print(table)
    console.print(_device(arguments.accelerator), soft_wrap=True, highlight=False)
    record = {"recipe": arguments.recipe, "device": _device(arguments.accelerator), "models": rows}
    write_json(arguments.json, record)


def _measure(plan: Plan, probe: int, console: Console) -> list[dict[str, Any]]:
    started, rows = time.monotonic(), []
    for position, (name, words) in enumerate(VARIANTS.items()):
        left = plan.seconds - (time.monotonic() - started)
        deadline = time.monotonic() + left / (len(VARIANTS) - position)
        epoch_seconds = _probe(plan, words, probe)
        epochs = max(1, int(_RESERVE * (deadline - time.monotonic()) / epoch_seconds))
        console.print(f"{name}: {epoch_seconds:.2f} s an epoch, training {epochs} epoch(s)", highlight=False)
        _reset_peak()
        result = _fit(plan, [*words, "--name", f"gpu-{position}", "--training.epochs", str(epochs)])
        images = result["images"] * result["epochs"]
        rows.append(
            {
                "model": name,
                "images_per_second": images / result["train_seconds"],
                "epochs": result["epochs"],
                "train_seconds": result["train_seconds"],
                "peak_bytes": _peak(),
                "accuracy": result["test"]["accuracy"],
                "unadapted_accuracy": result["test"]["unadapted_accuracy"],
            }
        )
    return rows


def _probe(plan: Plan, words: list[str], images: int) -> float:
    """Measure the seconds of an epoch over all training images, without the first epoch, which warms up."""
    from mntrain.config import load_experiment
    from mntrain.data.loading import load_images

    total = len(load_images(load_experiment(plan.recipe, [*plan.overrides, *words]).data).train)
    part = min(images, total)
    seconds = [
        _fit(
            plan,
            [*words, "--name", f"probe-{epochs}", "--training.epochs", str(epochs), "--data.train_limit", str(part)],
        )["train_seconds"]
        for epochs in (1, 3)
    ]
    return float(max(1e-3, (seconds[1] - seconds[0]) / 2) * total / part)


def _fit(plan: Plan, words: list[str]) -> dict[str, Any]:
    from mntrain.artifact import read_config
    from mntrain.config import load_experiment
    from mntrain.training.fit import fit
    from mntrain.training.run_folder import FitOptions

    config = load_experiment(plan.recipe, [*plan.overrides, *words])
    result = fit(config, FitOptions(runs=plan.runs, overwrite=True, quiet=True))
    assert result is not None, "one process"
    counts = read_config(plan.runs / config.name / "artifact").split["counts"]
    return result | {"images": counts["train"]}


def _reset_peak() -> None:
    import torch

    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()


def _peak() -> int | None:
    import torch

    return torch.cuda.max_memory_allocated() if torch.cuda.is_available() else None


def _device(accelerator: str) -> str:
    import torch

    machine = describe_machine()
    name = torch.cuda.get_device_name() if accelerator == "cuda" else machine.cpu
    return f"{name}, {machine.cores} CPU cores, torch {torch.__version__}"


if __name__ == "__main__":
    main()

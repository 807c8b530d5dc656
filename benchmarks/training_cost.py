"""What a training step of Meta-Neighborhoods costs beside the vanilla model's, on the same batch.

    python benchmarks/training_cost.py
    python benchmarks/training_cost.py --entries 1000,5000 --dropout-mode per_batch --json training_cost.json

A step is forward pass, backward pass and optimiser step on images that are already normalised. The models take turns
in every round; the ratio is the median over rounds, so that a slow moment of the machine hits both.
"""

import argparse
import dataclasses
import json
import os
from pathlib import Path

from rich.console import Console
from rich.table import Table

from mnserve.bench.machine import describe_machine
from mnserve.bench.statistics import latency, ratios, spread
from mnserve.bench.timing import Call, TimingPlan, interleave


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", default="1000", help="dictionary sizes S, separated by commas (1000)")
    parser.add_argument(
        "--dropout-mode", default="per_sample", choices=("per_sample", "per_batch"), help="(per_sample)"
    )
    parser.add_argument("--batch", type=int, default=128, help="images in a batch (128)")
    parser.add_argument("--size", type=int, default=28, help="height and width of the images (28)")
    parser.add_argument("--channels", type=int, default=1, help="channels of the images (1)")
    parser.add_argument("--classes", type=int, default=10, help="(10)")
    parser.add_argument("--backbone", default="convnet4", help="(convnet4)")
    parser.add_argument("--threads", type=int, default=0, help="of PyTorch; 0 leaves its default")
    parser.add_argument("--seconds", type=float, default=20.0, help="measured time of each model (20)")
    parser.add_argument("--rounds", type=int, default=20, help="(20)")
    parser.add_argument("--json", type=Path, help="file for the figures")
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as `mntrain fit` does
    names = ["vanilla"] + [f"MN, S = {entries}" for entries in arguments.entries.split(",")]
    steps = _steps(arguments)
    slots = interleave(steps, TimingPlan(seconds=arguments.seconds, rounds=arguments.rounds))

    import torch

    machine = describe_machine()
    title = (
        f"training step, {arguments.backbone}, batch {arguments.batch}, "
        f"{arguments.channels}×{arguments.size}×{arguments.size}, {arguments.classes} classes, {arguments.dropout_mode}"
    )
    table = Table(title=title)
    for heading in ("model", "p50 ms", "ratio to vanilla", "quartiles", "min–max"):
        table.add_column(heading, justify="left" if heading == "model" else "right")
    figures = []
    for name, mine in zip(names, slots, strict=True):
        ratio = spread(ratios(mine, slots[0]))
        p50 = latency(mine, arguments.batch).p50_ms
        table.add_row(
            name,
            f"{p50:.1f}",
            f"{ratio.median:.3f}",
            f"{ratio.q1:.3f}–{ratio.q3:.3f}",
            f"{ratio.low:.3f}–{ratio.high:.3f}",
        )
        figures.append({"model": name, "p50_ms": p50, "ratio": dataclasses.asdict(ratio)})
    console = Console()
    console.print(table)
    console.print(
        f"{machine.cpu}, {machine.cores} cores, torch {torch.__version__}, {torch.get_num_threads()} threads",
        soft_wrap=True,
        highlight=False,
    )
    if arguments.json:
        settings = {key: value for key, value in vars(arguments).items() if key != "json"}
        record = {"settings": settings, "machine": machine.to_json(), "models": figures}
        arguments.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def _steps(arguments: argparse.Namespace) -> list[Call]:
    """One callable a model; vanilla first."""
    import torch

    from mntrain.backbones.config import BackboneConfig, build_backbone
    from mntrain.models.base import Batch
    from mntrain.models.families import family_named
    from mntrain.training.config import TrainingConfig
    from mntrain.training.optimizer import build_optimizer

    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    shape = (arguments.batch, arguments.channels, arguments.size, arguments.size)
    images = torch.randn(shape).contiguous(memory_format=torch.channels_last)
    batch = Batch(images, torch.randint(arguments.classes, (arguments.batch,)))

    def step_of(family: str, **settings: object) -> Call:
        backbone = build_backbone(BackboneConfig(name=arguments.backbone), arguments.channels)
        entry = family_named(family)
        model = entry.build(entry.config(**settings), backbone, backbone.features, arguments.classes)
        model.to(memory_format=torch.channels_last)
        optimizer = build_optimizer(model.parameter_groups(), TrainingConfig())

        def step() -> None:
            optimizer.zero_grad(set_to_none=True)
            loss, _ = model.loss(batch)
            loss.backward()
            optimizer.step()

        return step

    return [step_of("vanilla")] + [
        step_of("meta_neighborhoods", entries=int(entries), dropout_mode=arguments.dropout_mode)
        for entries in arguments.entries.split(",")
    ]


if __name__ == "__main__":
    main()

"""Measure time and peak memory of a training step of every variant, over the vanilla model's on the same batch.

    python benchmarks/training_cost.py
    python benchmarks/training_cost.py --backbones resnet29 --entries 5000 --dropout-mode per_batch --json cost.json

A step is forward pass, backward pass and optimiser step on images that are already normalised. The variants of a
backbone take turns in every round; the ratio is the median over rounds, so that a slow moment of the machine hits all.
Memory is measured apart, in a fresh process for each variant: the peak after two steps minus the memory before the
model was built (resident memory on a CPU, allocated memory on a GPU).
"""

import dataclasses
import itertools
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from common.figures import write_json
from common.options import add_json, add_timing, positive_integer, script_parser
from rich.console import Console
from rich.table import Table

from mnserve.bench.machine import describe_machine
from mnserve.bench.statistics import latency, ratios, spread
from mnserve.bench.timing import Call, TimingPlan, interleave


@dataclass(frozen=True, kw_only=True)
class Variant:
    """Variant that is measured."""

    family: str
    backbone: str
    ifilm: bool
    entries: int = 0

    @property
    def name(self) -> str:
        """Name in the table."""
        family = "vanilla" if self.family == "vanilla" else "MN"
        return family + ("+iFiLM" if self.ifilm else "") + (f", S = {self.entries}" if self.entries else "")


@dataclass(frozen=True, kw_only=True)
class Step:
    """Settings of a step that all variants share."""

    batch: int
    channels: int
    size: int
    classes: int
    dropout_mode: str
    threads: int
    device: str
    bf16: bool


def main() -> None:
    parser = script_parser(__doc__)
    parser.add_argument("--backbones", default="convnet4,resnet29", help="separated by commas (convnet4,resnet29)")
    parser.add_argument("--entries", default="1000,5000,10000", help="dictionary sizes S (1000,5000,10000)")
    parser.add_argument("--no-ifilm", action="store_true", help="leave out the variants with iFiLM")
    modes = ("per_sample", "per_batch")
    parser.add_argument("--dropout-mode", default="per_sample", choices=modes, help="(per_sample)")
    parser.add_argument("--batch", type=positive_integer, default=128, help="images in a batch (128)")
    parser.add_argument("--size", type=positive_integer, default=32, help="height and width of the images (32)")
    parser.add_argument("--channels", type=positive_integer, default=3, help="channels of the images (3)")
    parser.add_argument("--classes", type=positive_integer, default=10, help="(10)")
    parser.add_argument("--threads", type=int, default=0, help="of PyTorch; 0 leaves its default")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (cpu)")
    parser.add_argument("--bf16", action="store_true", help="mixed precision with bfloat16")
    add_timing(parser, seconds=20, rounds=10, of="variant")
    add_json(parser)
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as `mntrain fit` does
    shared = Step(**{field.name: getattr(arguments, field.name) for field in dataclasses.fields(Step)})
    plan = TimingPlan(seconds=arguments.seconds, rounds=arguments.rounds)
    from mntrain.backbones.config import BACKBONES

    sizes = [int(entries) if entries.isdigit() else 0 for entries in arguments.entries.split(",")]
    if min(sizes) < 1:
        parser.error(f"--entries is {arguments.entries!r}; give whole numbers above 0, separated by commas")
    backbones = arguments.backbones.split(",")
    if unknown := [name for name in backbones if name not in BACKBONES]:
        parser.error(f"--backbones names {unknown[0]!r}; choose from {', '.join(BACKBONES)}")
    console, figures = Console(), {}
    for backbone in backbones:
        variants = [Variant(family="vanilla", backbone=backbone, ifilm=False)]
        variants += [
            Variant(
                family="meta_neighborhoods" if entries else "vanilla", backbone=backbone, ifilm=ifilm, entries=entries
            )
            for ifilm, entries in itertools.product((False,) if arguments.no_ifilm else (False, True), (0, *sizes))
            if ifilm or entries
        ]
        figures[backbone] = _measure(variants, shared, plan)
        console.print(_table(backbone, shared, figures[backbone]))
    machine = describe_machine()
    import torch

    on = torch.cuda.get_device_name() if shared.device == "cuda" else machine.cpu
    threads = f"{machine.cores} cores, torch {torch.__version__}, {torch.get_num_threads()} threads"
    console.print(f"{on}, {threads}", soft_wrap=True, highlight=False)
    settings = dataclasses.asdict(shared)
    write_json(arguments.json, {"settings": settings, "machine": machine.to_json(), "backbones": figures})


def _measure(variants: list[Variant], shared: Step, plan: TimingPlan) -> list[dict[str, Any]]:
    # Memory first: so no other process runs beside the timing.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as pool:
        memory = [pool.submit(_peak_bytes, variant, shared).result() for variant in variants]
    slots = interleave([_step(variant, shared) for variant in variants], plan)
    return [
        {
            "model": variant.name,
            "p50_ms": latency(times, shared.batch).p50_ms,
            "ratio": dataclasses.asdict(spread(ratios(times, slots[0]))),
            "peak_bytes": peak,
            "memory_ratio": peak / memory[0],
        }
        for variant, times, peak in zip(variants, slots, memory, strict=True)
    ]


def _table(backbone: str, shared: Step, figures: list[dict[str, Any]]) -> Table:
    precision = "bf16" if shared.bf16 else "float32"
    shape = f"batch {shared.batch}, {shared.channels}×{shared.size}×{shared.size}, {shared.classes} classes"
    title = f"training step, {backbone}, {shape}, {shared.dropout_mode} dropout, {precision}"
    table = Table(title=title, min_width=90)
    for heading in ("model", "p50 ms", "ratio to vanilla", "quartiles", "peak MB", "ratio"):
        table.add_column(heading, justify="left" if heading == "model" else "right")
    for row in figures:
        ratio = row["ratio"]
        table.add_row(
            row["model"],
            f"{row['p50_ms']:.1f}",
            f"{ratio['median']:.3f}",
            f"{ratio['q1']:.3f}–{ratio['q3']:.3f}",
            f"{row['peak_bytes'] / 2**20:.0f}",
            f"{row['memory_ratio']:.2f}",
        )
    return table


def _step(variant: Variant, shared: Step) -> Call:
    """Build a model, and return a function that makes a training step."""
    import torch

    from mntrain.backbones.config import BackboneConfig, build_backbone
    from mntrain.models.base import Batch
    from mntrain.models.families import family_named
    from mntrain.training.optimizer import build_optimizer
    from mntrain.training_config import TrainingConfig

    if shared.threads:
        torch.set_num_threads(shared.threads)
    torch.manual_seed(0)
    shape = (shared.batch, shared.channels, shared.size, shared.size)
    images = torch.randn(shape).contiguous(memory_format=torch.channels_last).to(shared.device)
    batch = Batch(images, torch.randint(shared.classes, (shared.batch,), device=shared.device))
    backbone = BackboneConfig(name=variant.backbone, ifilm=variant.ifilm)
    entry = family_named(variant.family)
    settings = {"entries": variant.entries, "dropout_mode": shared.dropout_mode} if variant.entries else {}
    model = entry.build(entry.config(**settings), partial(build_backbone, backbone, shape[1:]), shared.classes)
    model.to(shared.device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = build_optimizer(model.parameter_groups(), TrainingConfig())

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(shared.device, torch.bfloat16, enabled=shared.bf16):
            loss, _ = model.loss(batch)
        torch.autograd.backward(loss)
        optimizer.step()
        if shared.device == "cuda":
            torch.cuda.synchronize()

    return step


def _peak_bytes(variant: Variant, shared: Step) -> int:
    """Measure the peak memory of two training steps, in a process of its own."""
    import torch

    import mntrain.models.families  # noqa: F401  imported first, so that its memory does not count

    before = _resident_peak()
    step = _step(variant, shared)
    step()
    step()
    if shared.device == "cuda":
        return torch.cuda.max_memory_allocated()
    return _resident_peak() - before


def _resident_peak() -> int:
    # Not getrusage: its maximum also counts the parent's memory when it started this process.
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["VmHWM"].split()[0]) * 1024


if __name__ == "__main__":
    main()

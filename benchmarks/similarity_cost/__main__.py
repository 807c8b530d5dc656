"""Cost of neural similarity over the ordinary network: inference of the exported graph, and a training step.

    PYTHONPATH=benchmarks python -m similarity_cost
    PYTHONPATH=benchmarks python -m similarity_cost --backbones cnn9 resnet29 --batches 1,8,32 --json similarity.json
    PYTHONPATH=benchmarks python -m similarity_cost --backbones cnn9 --only static "DNS" --no-training

Networks are not trained: time does not depend on the weights. Predictors are moved off their start, at which they say
nothing. Every variant takes turns with the ordinary network in each round; a ratio is the median over the rounds.
Inference is ONNX Runtime's CPU provider on one thread, images of 3×32×32, in the form of ``cpu.onnx``, which mnserve
runs on CPUs; ``--ordinary`` takes that of ``model.onnx``. Operations are multiplications and additions
of convolutions and products for one image, over those of the ordinary network.
"""

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common.figures import with_quartiles, write_json
from common.options import add_json, add_timing, positive_integer, script_parser
from rich.console import Console
from torch.utils.flop_counter import FlopCounterMode

from mnexport.cpu_file.scattered import scattered_for_cpus
from mnexport.forms.dispatch import static_form
from mnexport.forms.plan import FormPlan
from mnexport.graph import write_onnx
from mnexport.runtime import onnxruntime
from mnexport.signature import image_signature
from mnserve.bench.machine import describe_machine
from mnserve.bench.statistics import ratios, spread
from mnserve.bench.timing import Call, TimingPlan, interleave
from mntrain.artifact_config import InputSpec
from mntrain.backbones.config import BackboneConfig, build_backbone
from mntrain.data.preprocessing import Preprocessing, PreprocessingConfig
from mntrain.layers.similarity.config import SimilarityConfig
from mntrain.layers.similarity.predictor import SimilarityPredictor
from mntrain.models.base import Batch, Model
from mntrain.models.families import family_named
from mntrain.result_table import ResultTable
from mntrain.training.optimizer import build_optimizer
from mntrain.training_config import TrainingConfig

SHAPE, CLASSES = (3, 32, 32), 10
PLAIN = "plain"
VARIANTS: dict[str, dict[str, Any]] = {
    PLAIN: {},
    "plain, width 2": {},
    "static": {"mode": "static", "kind": "unconstrained"},
    "DNS": {"mode": "dynamic"},
    "DNS, hidden 16, 1×1": {"mode": "dynamic", "hidden": 16, "second_kernel": 1},
    "UNS": {"mode": "dynamic", "kind": "unconstrained"},
    "UNS, hidden 32, 1×1": {"mode": "dynamic", "kind": "unconstrained", "hidden": 32, "second_kernel": 1},
}


def main() -> None:
    parser = script_parser(__doc__)
    parser.add_argument("--backbones", nargs="+", default=["cnn9", "resnet29"], help="(cnn9 resnet29)")
    parser.add_argument("--only", nargs="+", choices=list(VARIANTS), default=list(VARIANTS), metavar="NAME")
    parser.add_argument("--batches", default="1,8,32", help="images of a call, separated by commas (1,8,32)")
    parser.add_argument("--ordinary", action="store_true", help="the form of model.onnx, which GPUs run")
    parser.add_argument("--no-training", action="store_true", help="leave out the training step")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="keep the exported files there, for node_profile.py"
    )
    parser.add_argument("--training-batch", type=positive_integer, default=64, help="images of a step (64)")
    add_timing(parser, seconds=3, rounds=15, of="variant and batch size")
    add_json(parser)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    figures = {}
    for backbone in arguments.backbones:
        figures[backbone] = dict(_rows(backbone, arguments))
        _print(backbone, figures[backbone])
    machine = describe_machine()
    Console().print(f"{machine.cpu}, torch {torch.__version__}, onnxruntime {onnxruntime.__version__}, one thread")
    write_json(arguments.json, {"machine": asdict(machine), "backbones": figures})


def _rows(backbone: str, arguments: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    names = [PLAIN, *(name for name in arguments.only if name != PLAIN)]
    plan = TimingPlan(seconds=arguments.seconds, rounds=arguments.rounds)
    batches = [int(batch) for batch in arguments.batches.split(",")]
    rows: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        sessions = {}
        for name in names:
            static = static_form(
                _model(backbone, name).eval(), FormPlan(), Preprocessing(PreprocessingConfig.identity(SHAPE[0]))
            ).module
            if not arguments.ordinary:
                static, _ = scattered_for_cpus(static)
            file = Path(folder) / "model.onnx"
            if arguments.keep is not None:
                file = arguments.keep / backbone / name.replace(", ", "-").replace(" ", "-") / "model.onnx"
                file.parent.mkdir(parents=True, exist_ok=True)
            sessions[name], nodes = _session(static, file)
            rows[name] = {"operations": _operations(static), "nodes": nodes, "inference": {}}
    for batch in batches:
        images = np.random.default_rng(0).integers(0, 256, (batch, *SHAPE), np.uint8)
        calls: list[Call] = [partial(session.run, None, {"image": images}) for session in sessions.values()]
        slots = interleave(calls, plan)
        for name, times in zip(names, slots, strict=True):
            rows[name]["inference"][str(batch)] = asdict(spread(ratios(times, slots[0])))
    if not arguments.no_training:
        slots = interleave([_step(_model(backbone, name), arguments.training_batch) for name in names], plan)
        for name, times in zip(names, slots, strict=True):
            rows[name]["step"] = asdict(spread(ratios(times, slots[0])))
    for name in names:
        rows[name]["operations_over_plain"] = rows[name]["operations"] / rows[PLAIN]["operations"]
        yield name, rows[name]


def _model(backbone: str, name: str) -> Model:
    torch.manual_seed(0)
    width = 2.0 if name == "plain, width 2" else 1.0
    config = BackboneConfig(name=backbone, width=width, similarity=SimilarityConfig(**VARIANTS[name]))
    family = family_named("vanilla")
    model = family.build(family.config(), partial(build_backbone, config, SHAPE), CLASSES)
    for layer in model.modules():
        if isinstance(layer, SimilarityPredictor):
            torch.nn.init.normal_(layer.norms[1].weight if layer.diagonal else layer.second, std=0.1)  # type: ignore[arg-type]
    return model


def _session(static: torch.nn.Module, path: Path) -> tuple[Any, int]:
    size = InputSpec(channels=SHAPE[0], height=SHAPE[1], width=SHAPE[2])
    signature = image_signature(size, tuple(f"class {number}" for number in range(CLASSES)))
    report = write_onnx(static, signature, 20, {}, path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session, report.nodes


def _operations(static: torch.nn.Module) -> int:
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        static(torch.zeros(1, *SHAPE, dtype=torch.uint8))
    return int(counter.get_total_flops())


def _step(model: Model, rows: int) -> Call:
    model.train().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    images = torch.randn(rows, *SHAPE).contiguous(memory_format=torch.channels_last)
    batch = Batch(images, torch.arange(rows) % CLASSES)
    optimizer = build_optimizer(model.parameter_groups(), TrainingConfig())

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss, _ = model.evaluate_objective(model.loss, batch)
        torch.autograd.backward(loss)
        optimizer.step()

    return step


def _print(backbone: str, rows: dict[str, dict[str, Any]]) -> None:
    batches = list(rows[PLAIN]["inference"])
    headings = ["variant", "operations", "nodes", *(f"batch {batch}" for batch in batches)]
    trained = "step" in rows[PLAIN]
    headings += ["training step"] if trained else []
    lines = []
    for name, row in rows.items():
        ratios_of = [row["inference"][batch] for batch in batches] + ([row["step"]] if trained else [])
        cells = [with_quartiles(item["median"], item["q1"], item["q3"]) for item in ratios_of]
        lines.append([name, f"{row['operations_over_plain']:.2f}", str(row["nodes"]), *cells])
    caption = "Over the ordinary network: median of the rounds, with quartiles."
    ResultTable(headings=headings, rows=lines, caption=caption).show(Console(), title=backbone)


if __name__ == "__main__":
    main()

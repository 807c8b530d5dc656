"""Check inference on an NVIDIA GPU: parity with the CPU, and the ratio to vanilla with CUDA graphs.

    PYTHONPATH=. python benchmarks/gpu_inference.py
    PYTHONPATH=. python benchmarks/gpu_inference.py build/price --only convnet4-10-5000 --json gpu.json
    PYTHONPATH=. python benchmarks/gpu_inference.py --models convnet4-4-16 --device cpu --minutes 1 --seconds 0.1

`build/price` is a folder of artifacts, such as benchmarks/adaptive_models.py writes. Without a folder, models are made
on the spot, which needs nothing but this repository and PyTorch.

Where ONNX Runtime has a CUDA provider that starts, models are exported and run by mnserve's engine: CUDA with graphs,
CUDA without, and TensorRT if it is there. Elsewhere the static forms run in PyTorch, captured by torch.cuda.CUDAGraph.
Either way a timed call begins and ends with arrays in the host's memory. Parity asks for batches of many sizes:
captured ones, padded ones, and larger ones. TF32 is off; --tf32 turns it on for timing alone. Checks that are left
out, for want of a package or of time or because of an error, are listed in the end. Exit code 1: answers differ by too
much, or nothing could be checked.
"""

import argparse
import os
import sys
import tempfile
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from common.figures import write_json
from common.options import add_json, add_timing, positive_integer, positive_number, script_parser
from gpu_checks.budget import Budget
from gpu_checks.surroundings import ARTIFACTS, ONNX, Surroundings, look_around

if TYPE_CHECKING:
    from gpu_checks.session import MakeModel, Runner

MODELS = ("convnet4-10-5000", "resnet29-10-5000", "convnet4-100-10000")
DTYPES = ("float32", "float16")
BATCHES = (1, 8, 32, 128)
_CUDA = "CUDAExecutionProvider"


def main() -> int:
    parser, arguments = _arguments()
    if not arguments.tf32:
        # TensorRT has no switch of its own; the variable is read when CUDA is loaded.
        os.environ["NVIDIA_TF32_OVERRIDE"] = "0"
    budget = Budget(seconds=arguments.minutes * 60)
    surroundings = look_around()
    _say(surroundings.caption)
    for name, use in surroundings.missing.items():
        _say(f"not installed: {name} ({use})")
    if "torch" in surroundings.missing:
        sys.exit("gpu_inference: PyTorch is not installed, and nothing works without it; pip install torch")
    from gpu_checks.session import Plan, all_passed, check
    from gpu_checks.tables import show

    dtypes = tuple(dict.fromkeys(arguments.dtypes))
    plan = Plan(dtypes=dtypes, batches=BATCHES, seconds=arguments.seconds, rounds=arguments.rounds, tf32=arguments.tf32)
    makes = _models(arguments, parser, surroundings)
    with tempfile.TemporaryDirectory(prefix="gpu-inference-") as folder:
        runner = _runner(arguments, surroundings, budget, Path(folder))
        _say(f"{runner.label}: {runner.mode}")
        findings = check(makes, runner, plan, budget, _say)
    tf32 = "TF32 off for parity, " + ("on" if arguments.tf32 else "off") + " for timing"
    captions = [
        surroundings.caption,
        f"{runner.label}: {runner.mode}; {tf32}; {arguments.rounds} rounds, {arguments.seconds:g} s",
    ]
    captions += [f"{name}: {origin}" for name, origin in findings.origins.items()]
    show(findings.parities, findings.ratios, budget.skips, captions)
    settings = {name: str(value) for name, value in vars(arguments).items()}
    record = {"settings": settings, "surroundings": asdict(surroundings), "side": runner.label, "mode": runner.mode}
    record |= findings.to_json() | {"skipped": [asdict(item) for item in budget.skips]}
    write_json(arguments.json, record)
    return 0 if findings.parities and all_passed(findings.parities) else 1


def _arguments() -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    parser = script_parser(__doc__)
    parser.add_argument("artifacts", type=Path, nargs="?", help="folder of artifacts; without it models are made")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="of the artifacts (all)")
    parser.add_argument("--models", nargs="+", default=MODELS, metavar="BACKBONE-CLASSES-ENTRIES", help="to make")
    parser.add_argument(
        "--size", type=positive_integer, default=32, help="height and width of the images of made models (32)"
    )
    parser.add_argument("--width", type=positive_number, default=1.0, help="factor on the width of their backbones (1)")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: no graphs, plain calls (cuda)")
    parser.add_argument("--runtime", choices=("auto", "onnxruntime", "torch"), default="auto", help="(auto)")
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=DTYPES, help="of the backbones (both)")
    parser.add_argument("--minutes", type=positive_number, default=8.0, help="for everything (8)")
    add_timing(parser, seconds=2, rounds=20)
    parser.add_argument("--tf32", action="store_true", help="time float32 with TF32")
    add_json(parser)
    return parser, parser.parse_args()


def _models(
    arguments: argparse.Namespace, parser: argparse.ArgumentParser, surroundings: Surroundings
) -> "dict[str, MakeModel]":
    """Collect the functions that make the models, by name."""
    from gpu_checks.models import Synthetic, artifact_folders, of_artifact

    from mntrain.errors import ConfigError

    if arguments.artifacts is None:
        try:
            made = [Synthetic(name=name, size=arguments.size, width=arguments.width) for name in arguments.models]
        except (ValueError, ConfigError) as error:
            parser.error(f"--models: {error}")
        return {item.name: item.build for item in made}
    if lacking := surroundings.lacks(ARTIFACTS):
        sys.exit(f"gpu_inference: artifacts cannot be read without {lacking}; leave the folder out to make models")
    folders = artifact_folders(arguments.artifacts, arguments.only)
    absent = [name for name in arguments.only if name not in {folder.name for folder in folders}]
    if absent or not folders:
        missing = f" {absent[0]}" if absent else ""
        parser.error(f"there is no artifact{missing} in {arguments.artifacts}; adaptive_models.py writes some")
    return {folder.name: partial(of_artifact, folder) for folder in folders}


def _runner(arguments: argparse.Namespace, surroundings: Surroundings, budget: Budget, folder: Path) -> "Runner":
    """Choose ONNX Runtime where it works, else PyTorch; the reason is recorded."""
    from gpu_checks.torch_runner import TorchRunner

    fault = "--runtime torch" if arguments.runtime == "torch" else _onnx_fault(arguments.device, surroundings, folder)
    if fault:
        if arguments.runtime == "onnxruntime":
            sys.exit(f"gpu_inference: ONNX Runtime cannot be used: {fault}")
        import torch

        if arguments.device == "cuda" and not torch.cuda.is_available():
            sys.exit(f"gpu_inference: no GPU for PyTorch, nor for ONNX Runtime ({fault}); try --device cpu")
        budget.skip("ONNX Runtime, CUDA and TensorRT providers", fault)
        return TorchRunner(arguments.device, BATCHES)
    from gpu_checks.onnx_runner import OnnxRunner

    return OnnxRunner(folder, arguments.device, BATCHES, surroundings.providers)


def _onnx_fault(device: str, surroundings: Surroundings, folder: Path) -> str:
    if lacking := surroundings.lacks(ONNX):
        return f"not installed: {lacking}"
    if device == "cpu":
        return ""
    if _CUDA not in surroundings.providers:
        return f"this build has {', '.join(surroundings.providers)}; onnxruntime-gpu has {_CUDA}"
    from gpu_checks.onnx_runner import cuda_fault

    return cuda_fault(folder)


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

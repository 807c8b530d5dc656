"""Command ``mntrain adapt``: an artifact that knows new classes, from a few images of each."""

import json
from dataclasses import dataclass
from typing import Annotated

from mntrain.commands.command import Command
from mntrain.commands.options import ArtifactPath, Count, DataPath, FolderPath, Option, OtherWords
from mntrain.terminal_text import printable

_EPILOG = """\
methods:
  protonet         nearest mean of the support images of a class, as a linear classifier (trained first with --train)
  finetune         a new classifier on frozen features (--finetune.classifier dot or cosine)
  static-nsn       similarities M of a plain or static network and a new classifier; an export folds M into kernels
  dynamic-nsn      a new classifier on a network of backbone.similarity.mode dynamic
  maml             all weights, trained on episodes of the artifact's own classes first (--maml.steps, --data-path)
  meta-static-nsn  the same for similarities M and classifier alone (--meta_static.steps)

examples:

  mntrain adapt runs/mini-imagenet-cnn4-vanilla/artifact build/birds --data.path birds --method finetune
  mntrain adapt runs/mini-imagenet-cnn4-vanilla/artifact build/birds5 --data.path birds --shots 5 --method static-nsn
  mntrain evaluate build/birds --data.path other-birds
  mnexport build/birds repository/birds

Any field --data.X says how the images are read (`mntrain fit RECIPE --fields` lists them), and settings of a method
such as --finetune.epochs are those of `mntrain fewshot`.
"""


@dataclass(frozen=True, kw_only=True)
class AdaptCommand:
    """Options of ``mntrain adapt``.

    Args:
        artifact: artifact folder (runs/NAME/artifact) of a classifier of images
        folder: artifact to write
        words: where the support images lie (--data.path and other fields of data), and settings of the method
        method: method, see below
        shots: support images of each class, drawn by --seed (all)
        queries: images of each class to answer in a training episode
        seed: of the draw of support images, and of training episodes
        train: train protonet on episodes of the artifact's own classes first
        data_path: where the data of the run lies now, if it has moved
        json: print the result as JSON, and no progress
    """

    artifact: ArtifactPath
    folder: FolderPath
    words: OtherWords = ()
    method: Annotated[str, Option(metavar="METHOD")] = "protonet"
    shots: Count | None = None
    queries: Count = 15
    seed: Count = 0
    train: bool = False
    data_path: DataPath | None = None
    json: bool = False


def run(command: AdaptCommand) -> int:
    """Adapt the artifact, save the result, and say what it is; returns the exit code."""
    from mntrain.data.labels import listing
    from mntrain.fewshot.adapting import AdaptOptions, adapt_artifact
    from mntrain.fewshot.settings import parse_settings, split_words
    from mntrain.fields.parsing import parse_section

    of_data, others = split_words(command.words)
    report = adapt_artifact(
        AdaptOptions(
            artifact=command.artifact,
            output=command.folder,
            new_data=parse_section("data", of_data),
            method=command.method,
            shots=command.shots,
            queries=command.queries,
            seed=command.seed,
            train=command.train,
            data_path=command.data_path,
            settings=parse_settings(others, "mntrain adapt"),
            quiet=command.json,
        )
    )
    if command.json:
        print(json.dumps(report.to_json(), allow_nan=False))
        return 0
    names = report.support.names
    print(printable(f"{report.artifact} knows {len(names)} classes: {listing([repr(name) for name in names])}"))
    figures, count = report.figures, len(report.support.images)
    print(f"on its {count} support images themselves: accuracy {figures['accuracy']:.2%}, loss {figures['loss']:.4f}")
    if report.trained_classes:
        shared = listing([repr(name) for name in report.trained_classes])
        print(printable(f"note: the network was trained on classes of the same names before: {shared}"))
    return 0


COMMAND = Command(
    options=AdaptCommand,
    run=run,
    summary="artifact that knows new classes, from a few images of each",
    description="Adapt an artifact to classes that it was not trained on, from a few images of each: the result is an "
    "artifact as any other, which `mntrain evaluate`, `mnexport` and `mnserve` take.",
    epilog=_EPILOG,
)

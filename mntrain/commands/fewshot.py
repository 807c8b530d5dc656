"""Command ``mntrain fewshot``: accuracy on episodes of classes that an artifact was not trained on."""

import json
from dataclasses import dataclass
from typing import Annotated

from mntrain.commands.command import Command
from mntrain.commands.lists import names
from mntrain.commands.options import ArtifactPath, Count, DataPath, FilePath, Option, OtherWords

_EPILOG = """\
methods on the artifact's network as it is:
  nearest          nearest support image, by the distance of features
  protonet         nearest mean of the support images of a class
  matching         attention over the support images, by the cosine
  finetune         a new classifier on frozen features (--finetune.classifier dot or cosine)
  static-nsn       similarities M of a plain or static network and a new classifier (--finetune.similarity_rate)
  dynamic-nsn      a new classifier on a network of backbone.similarity.mode dynamic
methods that are trained on episodes of the artifact's own classes first (--episodic.episodes, --data-path):
  maml             all weights, from a start that is learned in second order (--maml.steps)
  meta-static-nsn  the same for similarities M and classifier alone (--meta_static.steps)
  relationnet      a learned comparison
  protonet, matching   with --train

examples:

  mntrain fit mini-imagenet-cnn4 --data.path train.parquet
  mntrain fewshot runs/mini-imagenet-cnn4-vanilla/artifact --data.path test.parquet --method nearest,protonet --shots 5
  mntrain fewshot runs/omniglot-cnn4-vanilla/artifact --data.path background.parquet \\
      --data.classes 'Sanskrit/*,Tagalog/*' --method relationnet --episodic.episodes 2000

A method that fails does not stop the others; the exit code is then 1. Ctrl-C prints what is finished.
Any field --data.X says how the images are read (`mntrain fit RECIPE --fields` lists them).
"""


@dataclass(frozen=True, kw_only=True)
class FewShotCommand:
    """Options of ``mntrain fewshot``.

    Args:
        artifact: artifact folder (runs/NAME/artifact) of a classifier of images
        words: where images of new classes lie (--data.path and other fields of data), and settings of the methods
        method: methods, see below
        ways: classes of an episode
        shots: support images of each class
        queries: images of each class to answer
        episodes: number of episodes (fewer will do for methods that fine-tune the network)
        seed: of the episodes
        train: train on episodes the methods that may be
        data_path: where the data of the run lies now, if it has moved
        plot: write mean and interval of each method there, as SVG
        json: print the result as JSON, and no progress
    """

    artifact: ArtifactPath
    words: OtherWords = ()
    method: Annotated[str, Option(metavar="A,B", between_commas=True)] = "protonet"
    ways: Count = 5
    shots: Count = 1
    queries: Count = 15
    episodes: Count = 600
    seed: Count = 0
    train: bool = False
    data_path: DataPath | None = None
    plot: FilePath | None = None
    json: bool = False


def run(command: FewShotCommand) -> int:
    """Evaluate the methods, and print their accuracies; returns the exit code."""
    from mntrain.analysis.page_file import check_writable, write_page
    from mntrain.errors import ConfigError
    from mntrain.fewshot.episodes import EpisodeShape
    from mntrain.fewshot.session import FewShotOptions, evaluate_few_shot
    from mntrain.fewshot.settings import parse_settings, split_words
    from mntrain.fields.parsing import parse_section

    if command.plot is not None and command.plot.suffix != ".svg":
        raise ConfigError(f"--plot is {str(command.plot)!r}; its name must end in .svg.")
    if command.plot is not None:
        check_writable(command.plot, "--plot")
    of_data, others = split_words(command.words)
    options = FewShotOptions(
        artifact=command.artifact,
        new_data=parse_section("data", of_data),
        methods=names(command.method),
        shape=EpisodeShape(ways=command.ways, shots=command.shots, queries=command.queries),
        episodes=command.episodes,
        seed=command.seed,
        train=command.train,
        data_path=command.data_path,
        settings=parse_settings(others),
        quiet=command.json,
    )
    report = evaluate_few_shot(options)
    if command.json:
        print(json.dumps(report.to_json(), allow_nan=False))
    else:
        from rich.console import Console

        report.table().show(Console(), title=report.title, notes=report.notes)
    if command.plot is not None and report.accuracies:
        write_page(command.plot, report.svg(), "--plot")
    if report.interrupted:
        raise KeyboardInterrupt
    return 1 if report.failures else 0


COMMAND = Command(
    options=FewShotCommand,
    run=run,
    summary="accuracy on new classes from a few images of each, over episodes",
    description="Tell classes apart that an artifact was not trained on, from a few images of each: mean accuracy over "
    "episodes, with its 95 % interval.",
    epilog=_EPILOG,
)

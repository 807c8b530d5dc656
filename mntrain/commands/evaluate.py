"""Command ``mntrain evaluate``: figures of an artifact, on the data of its run or on new labelled data."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mntrain.commands.command import Command
from mntrain.commands.options import ArtifactPath, Count, DataPath, FolderPath, OtherWords
from mntrain.evaluation.options import Split, UnknownClasses
from mntrain.terminal_text import printable

if TYPE_CHECKING:
    from mntrain.evaluation.report import EvaluationReport

_EPILOG = """\
Without --data.path the artifact is evaluated on a split of the data it was trained with. With it, on labelled data
that it has never seen: everything there, read by the artifact's own rules, classes matched by name. Any field
--data.X says how the new data is read (`mntrain fit RECIPE --fields` lists them).

examples:

  mntrain evaluate runs/digits-meta-neighborhoods/artifact
  mntrain evaluate runs/fashion-mnist-vanilla/artifact --split validation --json
  mntrain evaluate runs/pacs-meta-neighborhoods/artifact --split all   # training examples too, as published for PACS
  mntrain evaluate runs/my-images-meta-neighborhoods/artifact --data.path path/to/new --output build/new
  mntrain evaluate runs/my-table-meta-neighborhoods/artifact --data.path new.csv --baselines --data-path path/to/old.csv

--output FOLDER gets metrics.json, predictions.csv, per_class.csv and confusion.csv (or per_target.csv), and the
confusion matrix (or scatter plot) as PNG and SVG.
"""


@dataclass(frozen=True, kw_only=True)
class EvaluateCommand:
    """Options of ``mntrain evaluate``.

    Args:
        artifact: artifact folder (runs/NAME/artifact)
        new_data: fields that say where new data lies and how it is read, such as --data.path
        split: part of the data (test; of new data all)
        data_path: where the data of the run lies now, if it has moved
        unknown_classes: new data with classes that the model does not know is refused, or they are left out
        baselines: measure kNN and, for rows, gradient boosting beside the model
        output: write figures, predictions and pictures there
        batch_size: examples at a time
        json: print the result as JSON
    """

    artifact: ArtifactPath
    new_data: OtherWords = ()
    split: Split | None = None
    data_path: DataPath | None = None
    unknown_classes: UnknownClasses = "refuse"
    baselines: bool = False
    output: FolderPath | None = None
    batch_size: Count = 500
    json: bool = False


def run(command: EvaluateCommand) -> int:
    """Evaluate the artifact and print its figures; returns the exit code."""
    from mntrain.evaluation.options import EvaluateOptions
    from mntrain.fields.parsing import parse_section

    options = EvaluateOptions(
        artifact=command.artifact,
        split=command.split,
        data_path=command.data_path,
        new_data=parse_section("data", command.new_data),
        unknown_classes=command.unknown_classes,
        batch_size=command.batch_size,
        baselines=command.baselines,
        output=command.output,
    )
    from mntrain.evaluation.session import evaluate_artifact

    report = evaluate_artifact(options)
    if command.json:
        print(json.dumps(report.to_json(), allow_nan=False))
        return 0
    _print(report)
    if command.output is not None:
        print(printable(f"written to {command.output}"))
    return 0


def _print(report: "EvaluationReport") -> None:
    from rich.console import Console

    from mntrain.evaluation.sentences import sentences
    from mntrain.evaluation.tables import result_tables

    for line in sentences(report):
        print(printable(line))
    console = Console()
    for title, table in result_tables(report):
        table.show(console, title=title)


COMMAND = Command(
    options=EvaluateCommand,
    run=run,
    summary="figures of an artifact, on its run's data or on new labelled data",
    description="Accuracy (or squared error) of an artifact, its confusion matrix and the figures of every class or "
    "target, on a split of the data it was trained with or on new labelled data.",
    epilog=_EPILOG,
)

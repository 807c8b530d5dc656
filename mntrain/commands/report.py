"""Command ``mntrain report``: write a page about a run."""

import json
from dataclasses import dataclass
from typing import Annotated

from mntrain.commands.command import Command
from mntrain.commands.options import Count, DataPath, FilePath, Option, RunPath
from mntrain.terminal_text import printable

_EPILOG = """\
examples:

  mntrain report runs/digits-meta-neighborhoods
  mntrain report runs/pacs-mn-seed0 --data-path path/to/pacs
  mntrain report runs/spiral-meta-neighborhoods
  mntrain report runs/cifar100-coarse --data-path path/to/cifar100 --fine-labels fine_label
  mntrain report runs/heads-flowers
  mntrain report runs/digits-mn-seed0 --compare runs/compare-digits/compare.json --output build/digits.html

The page is one file without scripts: it can be mailed, and opened without a network.
"""


@dataclass(frozen=True, kw_only=True)
class ReportCommand:
    """Options of ``mntrain report``.

    Args:
        run: folder of the run (runs/NAME), of a head or of a comparison of heads
        data_path: where the data lies now, if it has moved
        fine_labels: finer labels of the data, for retrieval
        compare: compare.json of a sweep; repeatable
        images: most images or rows of a split to look at
        output: the page (RUN/report.html)
        json: print the numbers as JSON, and no progress
    """

    run: RunPath
    data_path: DataPath | None = None
    fine_labels: Annotated[str, Option(metavar="COLUMN")] | None = None
    compare: tuple[FilePath, ...] = ()
    images: Count = 2000
    output: FilePath | None = None
    json: bool = False


def run(command: ReportCommand) -> int:
    """Write the page; returns the exit code."""
    from mntrain.analysis.heads.report import is_head
    from mntrain.analysis.report import report
    from mntrain.analysis.report_input import ReportOptions

    if is_head(command.run):
        return _run_head(command)
    options = ReportOptions(
        run=command.run,
        data_path=command.data_path,
        fine_labels=command.fine_labels,
        comparisons=command.compare,
        images=command.images,
        output=command.output,
        quiet=command.json,
    )
    numbers = report(options)
    print(json.dumps(numbers, allow_nan=False) if command.json else printable(f"page {options.page}"))
    return 0


def _run_head(command: ReportCommand) -> int:
    """Write the page of a head, or of a comparison of heads; returns the exit code."""
    from mntrain.analysis.heads.report import HeadReportOptions, report_heads
    from mntrain.errors import ConfigError

    given = {"--data-path": command.data_path, "--fine-labels": command.fine_labels, "--compare": command.compare}
    if unused := [name for name, value in given.items() if value]:
        raise ConfigError(f"{unused[0]} has no use for a head, {command.run}, which keeps its scores; leave it out.")
    options = HeadReportOptions(run=command.run, output=command.output)
    numbers = report_heads(options)
    print(json.dumps(numbers, allow_nan=False) if command.json else printable(f"page {options.page}"))
    return 0


COMMAND = Command(
    options=ReportCommand,
    run=run,
    summary="one self-contained HTML page about a run",
    description="Look at a trained model as the paper does, and write one self-contained HTML page.",
    epilog=_EPILOG,
)

"""``mntrain report``: one page about a run."""

import argparse
import json
from pathlib import Path
from typing import Any

from mntrain.commands.parsing import add_command

_EPILOG = """\
examples:

  mntrain report runs/digits-meta-neighborhoods
  mntrain report runs/pacs-mn-seed0 --data-path path/to/pacs
  mntrain report runs/spiral-meta-neighborhoods
  mntrain report runs/cifar100-coarse --data-path path/to/cifar100 --fine-labels fine_label
  mntrain report runs/digits-mn-seed0 --compare runs/compare-digits/compare.json --output build/digits.html

The page is one file without scripts: it can be mailed, and opened without a network.
"""


def add(commands: Any) -> None:
    """Join the command line."""
    parser = add_command(
        commands,
        "report",
        summary="one self-contained HTML page about a run",
        description="Look at a trained model as the paper does, and write one self-contained HTML page.",
        epilog=_EPILOG,
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of the run (runs/NAME)")
    parser.add_argument("--data-path", metavar="PATH", help="where the data lies now, if it has moved")
    parser.add_argument("--fine-labels", metavar="COLUMN", help="finer labels of the data, for retrieval")
    parser.add_argument(
        "--compare", type=Path, action="append", default=[], metavar="FILE", help="compare.json of a sweep; repeatable"
    )
    parser.add_argument(
        "--images", type=int, default=2000, metavar="N", help="most images or rows of a split to look at (2000)"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="the page (RUN/report.html)")
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON, and no progress")


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    from mntrain.analysis.report import report
    from mntrain.analysis.report_input import ReportOptions

    options = ReportOptions(
        run=arguments.run,
        data_path=arguments.data_path,
        fine_labels=arguments.fine_labels,
        comparisons=tuple(arguments.compare),
        images=arguments.images,
        output=arguments.output,
        quiet=arguments.json,
    )
    numbers = report(options)
    print(json.dumps(numbers, allow_nan=False) if arguments.json else f"page {options.page}")
    return 0

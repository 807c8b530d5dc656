"""``mntrain neighbors``: training images nearest to each entry of a dictionary, into the artifact."""

import argparse
import json
from pathlib import Path
from typing import Any

from mntrain.commands.parsing import add_command

_EPILOG = """\
examples:

  mntrain neighbors runs/digits-meta-neighborhoods/artifact
  mntrain neighbors runs/pacs-meta-neighborhoods/artifact --images 5 --data-path path/to/pacs
  mnexport runs/digits-meta-neighborhoods/artifact repository/digits-mn --explain 5

The artifact then holds training images, and so does what `mnexport --explain` publishes: do it where they may be
passed on. Remove neighbors.safetensors to take them out again.
"""


def add(commands: Any) -> None:
    """Join the command line."""
    parser = add_command(
        commands,
        "neighbors",
        summary="add the training images nearest to each learned neighbor to an artifact",
        description="Add to an artifact the training images nearest to each entry of its dictionary, by the "
        "model's own similarity, so that explanations can show them.",
        epilog=_EPILOG,
    )
    parser.add_argument("artifact", type=Path, metavar="ARTIFACT", help="artifact folder (runs/NAME/artifact)")
    parser.add_argument("--images", type=int, default=3, metavar="N", help="images for each entry (3)")
    parser.add_argument("--data-path", metavar="PATH", help="where the data lies now, if it has moved")
    parser.add_argument("--json", action="store_true", help="print the result as JSON, and no progress")


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    from mntrain.neighbors.adding import NeighborOptions, add_neighbors

    options = NeighborOptions(
        artifact=arguments.artifact,
        images=arguments.images,
        data_path=arguments.data_path,
        quiet=arguments.json,
    )
    report = add_neighbors(options)
    if arguments.json:
        print(json.dumps(report.to_dict()))
        return 0
    print(
        f"{report.file}: the {report.images} nearest of {report.looked_at:,} training images for each of "
        f"{report.entries:,} entries, {report.stored:,} different ones, {report.size / 1e6:.2f} MB"
    )
    print(f"{report.share_of_entry_class:.1%} are of their entry's class")
    return 0

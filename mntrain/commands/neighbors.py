"""Command ``mntrain neighbors``: add the training images nearest to each entry of a dictionary to the artifact."""

import json
from dataclasses import dataclass

from mntrain.commands.command import Command
from mntrain.commands.options import ArtifactPath, Count, DataPath

_EPILOG = """\
examples:

  mntrain neighbors runs/digits-meta-neighborhoods/artifact
  mntrain neighbors runs/pacs-meta-neighborhoods/artifact --images 5 --data-path path/to/pacs
  mnexport runs/digits-meta-neighborhoods/artifact repository/digits-mn --explain 5

The artifact then holds training images, and so does what `mnexport --explain` publishes: do it where they may be
passed on. Remove neighbors.safetensors to take them out again.
"""


@dataclass(frozen=True, kw_only=True)
class NeighborsCommand:
    """Options of ``mntrain neighbors``.

    Args:
        artifact: artifact folder (runs/NAME/artifact)
        images: images for each entry
        data_path: where the data lies now, if it has moved
        json: print the result as JSON, and no progress
    """

    artifact: ArtifactPath
    images: Count = 3
    data_path: DataPath | None = None
    json: bool = False


def run(command: NeighborsCommand) -> int:
    """Add the images, and print what was added; returns the exit code."""
    from mntrain.acting.labels import label_verdict
    from mntrain.neighbors.adding import NeighborOptions, add_neighbors

    options = NeighborOptions(
        artifact=command.artifact,
        images=command.images,
        data_path=command.data_path,
        quiet=command.json,
    )
    report = add_neighbors(options)
    if command.json:
        print(json.dumps(report.to_dict()))
        return 0
    print(
        f"{report.file}: the {report.images} nearest of {report.looked_at:,} training images for each of "
        f"{report.entries:,} entries, {report.stored:,} different ones, {report.size / 1e6:.2f} MB"
    )
    print(report.consistency.describe())
    if (verdict := label_verdict(report.consistency, None)) is not None:
        print(f"note: {verdict}")
    return 0


COMMAND = Command(
    options=NeighborsCommand,
    run=run,
    summary="add the training images nearest to each learned neighbor to an artifact",
    description="Add to an artifact the training images nearest to each entry of its dictionary, by the model's own "
    "similarity, so that explanations can show them.",
    epilog=_EPILOG,
)

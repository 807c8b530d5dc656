"""Command ``mntrain pull``: an artifact or a model repository from the Hugging Face hub, or from a folder."""

import json
from dataclasses import dataclass
from typing import Annotated

from mntrain.commands.command import Command
from mntrain.commands.options import FolderPath, Option
from mntrain.terminal_text import printable

_EPILOG = """\
examples:

  mntrain pull me/digits runs/digits/artifact
  mntrain pull me/digits-onnx repository/digits-mn --revision candidates
  mntrain pull me/models repository --overwrite
  mntrain pull file:///mnt/share/digits build/digits

A model is pulled into a folder of its own name, as servers want it.
"""


@dataclass(frozen=True, kw_only=True)
class PullCommand:
    """Options of ``mntrain pull``.

    Args:
        source: OWNER/NAME on the hub; a folder as file:///path or ./path
        folder: folder to make
        revision: branch, tag or commit (main)
        overwrite: replace an artifact, a model or models of the same names
        json: print the result as JSON, and no progress
    """

    source: Annotated[str, Option(metavar="REPO_ID")]
    folder: FolderPath
    revision: Annotated[str, Option(metavar="REVISION")] | None = None
    overwrite: bool = False
    json: bool = False


def run(command: PullCommand) -> int:
    """Pull into the folder, and say what was fetched; returns the exit code."""
    from mntrain.hub.session import PullOptions, pull

    report = pull(
        PullOptions(
            source=command.source,
            folder=command.folder,
            revision=command.revision,
            overwrite=command.overwrite,
            quiet=command.json,
        )
    )
    if command.json:
        print(json.dumps(report.to_json()))
        return 0
    of_commit = "" if report.commit is None else f", commit {report.commit[:12]}"
    size = f"{len(report.files)} files, {report.size / 1e6:.2f} MB"
    print(printable(f"{report.place}: {report.kind} of {size}{of_commit}; checked"))
    return 0


COMMAND = Command(
    options=PullCommand,
    run=run,
    summary="artifact or model repository from the Hugging Face hub, or from a folder",
    description="Fetch an artifact, a model or a model repository, check it by loading it or by its digests, and put "
    "it in place whole or not at all.",
    epilog=_EPILOG,
)

"""Command ``mntrain push``: an artifact or a model repository to the Hugging Face hub, or to a folder."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from mntrain.commands.command import Command
from mntrain.commands.options import Option
from mntrain.terminal_text import printable

_EPILOG = """\
examples:

  mntrain push runs/digits-meta-neighborhoods/artifact me/digits --private
  mntrain push repository/digits-mn me/digits-onnx --message "retrained" --license apache-2.0
  mntrain push repository me/models --revision candidates
  mntrain push runs/digits-meta-neighborhoods/artifact file:///mnt/share/digits

The token is the one of `hf auth login`, or HF_TOKEN; HF_ENDPOINT names another hub.
"""


@dataclass(frozen=True, kw_only=True)
class PushCommand:
    """Options of ``mntrain push``.

    Args:
        folder: artifact (runs/NAME/artifact), model (REPOSITORY/NAME) or model repository
        target: OWNER/NAME on the hub; a folder as file:///path or ./path
        private: make a new repository private
        revision: branch to push to, made where there is none (main)
        message: of the commit
        license: the hub's word for a license, such as apache-2.0, for the model card
        json: print the result as JSON, and no progress
    """

    folder: Annotated[Path, Option(metavar="FOLDER")]
    target: Annotated[str, Option(metavar="REPO_ID")]
    private: bool = False
    revision: Annotated[str, Option(metavar="BRANCH")] | None = None
    message: Annotated[str, Option(metavar="TEXT")] | None = None
    license: Annotated[str, Option(metavar="LICENSE")] | None = None
    json: bool = False


def run(command: PushCommand) -> int:
    """Push the folder, and say what was sent; returns the exit code."""
    from mntrain.hub.session import PushOptions, push

    report = push(
        PushOptions(
            folder=command.folder,
            target=command.target,
            revision=command.revision,
            message=command.message,
            private=command.private,
            license=command.license,
            quiet=command.json,
        )
    )
    if command.json:
        print(json.dumps(report.to_json()))
        return 0
    print(printable(f"{report.place}: {report.kind} of {len(report.files)} files, {report.size / 1e6:.2f} MB"))
    if report.left_out:
        more = f" and {len(report.left_out) - 5} more" if len(report.left_out) > 5 else ""
        print(printable(f"left out, since not of the {report.kind}: {', '.join(report.left_out[:5])}{more}"))
    return 0


COMMAND = Command(
    options=PushCommand,
    run=run,
    summary="artifact or model repository to the Hugging Face hub, or to a folder",
    description="Check an artifact, a model of a repository or a whole repository, and send the files that belong to "
    "it in one commit, with its model card.",
    epilog=_EPILOG,
)

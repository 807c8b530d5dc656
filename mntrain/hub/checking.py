"""Checks of contents, before they are sent and after they were fetched."""

import hashlib
import re
from pathlib import Path
from typing import Final

from mntrain.artifact import load_artifact
from mntrain.errors import ArtifactError
from mntrain.hub.contents import CONFIG, Contents, read_record
from mntrain.regular_files import read_text, regular

_NAME: Final = re.compile(r'^\s*name\s*:\s*"([^"]*)"', re.MULTILINE)
_INTERFACE: Final = re.compile(r"^\s*(?:input|output)\b", re.MULTILINE)


def check_contents(contents: Contents) -> None:
    """Load an artifact, or compare the files of models with their digests.

    Raises:
        ArtifactError: an artifact cannot be loaded, or a file is not the one that ``export.json`` names.
    """
    if contents.kind == "artifact":
        load_artifact(contents.folder)
        return
    for model in model_folders(contents):
        model_name(model)
        for version in sorted(item for item in model.iterdir() if item.name.isdecimal() and item.is_dir()):
            _check_digests(version)


def model_folders(contents: Contents) -> list[Path]:
    """List the folders of the models."""
    return [contents.folder] if contents.kind == "model" else [contents.folder / name for name in contents.models]


def model_name(folder: Path) -> str | None:
    """Read the name of a model from its ``config.pbtxt``; None where it names none.

    Raises:
        ArtifactError: the file cannot be read, or describes no inputs.
    """
    file = folder / CONFIG
    try:
        text = read_text(file)
    except (OSError, ValueError) as error:
        detail = getattr(error, "strerror", None) or str(error)
        raise ArtifactError(f"{file} cannot be read ({detail}); export the model again.") from error
    if not _INTERFACE.search(text):
        raise ArtifactError(f"{file} describes neither input nor output; export the model again.")
    match = _NAME.search(text)
    return match[1] if match else None


def _check_digests(version: Path) -> None:
    for name, expected in read_record(version)["sha256"].items():
        file = version / name
        try:
            with regular(file).open("rb") as content:
                digest = hashlib.file_digest(content, "sha256").hexdigest()
        except OSError as error:
            raise ArtifactError(f"{file} cannot be read: {error.strerror or error}.") from error
        if digest != expected:
            raise ArtifactError(
                f"{file} is not the file that was exported: its SHA-256 begins with {digest[:12]}, export.json has "
                f"{str(expected)[:12]}; export the model again, or fetch it again."
            )

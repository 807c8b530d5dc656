"""Files of one version of a model, and their check against the published hashes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mnserve.errors import CorruptModelError
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.text.json_text import parse_json
from mnserve.text.names import is_text
from mnserve.text.text_files import read_text

EXPORT_NAME = "export.json"


@dataclass(frozen=True, kw_only=True)
class ModelFiles:
    """Files and configuration of one version of a model.

    Attributes:
        name: Folder name, under which the model is served.
        version: Number of the version folder.
        config: Content of config.pbtxt or of its override, with ``name`` filled in; only ``name`` without a file.
        version_folder: Folder of the version.
        model_path: The model file, in that folder, or in a folder there that also holds its external data.
        export: Content of export.json; None without the file.
    """

    name: str
    version: int
    config: ModelConfig
    version_folder: Path
    model_path: Path
    export: Mapping[str, Any] | None


def read_export(path: Path, name: str) -> Mapping[str, Any] | None:
    """Reads the export.json of a model; None without the file.

    Raises:
        CorruptModelError: The file cannot be read, or is no JSON object.
    """
    if not os.path.lexists(path):
        return None
    if fault := file_fault(path):
        raise CorruptModelError(f"model '{name}': {path} {fault}; restore the file, or export the model again")
    try:
        export = parse_json(read_text(path))
    except (OSError, ValueError) as error:
        raise CorruptModelError(f"model '{name}': {path} is unreadable ({error}); export it again") from error
    if not isinstance(export, dict):
        raise CorruptModelError(f"model '{name}': {path} is not a JSON object; export it again")
    return export


def verify(files: ModelFiles) -> None:
    """Compares the files with the hashes in export.json; without export.json there is no check.

    Raises:
        CorruptModelError: A file is missing or was changed after it was published.
    """
    hashes = (files.export or {}).get("sha256", {})
    if not isinstance(hashes, dict):
        raise CorruptModelError(f"model '{files.name}': sha256 in {EXPORT_NAME} is not a mapping; export it again")
    for file_name, expected in hashes.items():
        path = files.version_folder / plain_name(file_name, files.name)
        if not path.is_file():  # opening a pipe would block until a writer opens it
            raise CorruptModelError(f"model '{files.name}': {path} is missing or is no file; export it again")
        try:
            with path.open("rb") as stream:
                actual = hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError as error:
            raise CorruptModelError(f"model '{files.name}': cannot read {path}: {error.strerror}") from error
        if actual != expected:
            raise CorruptModelError(
                f"model '{files.name}' version {files.version}: {file_name} has SHA-256 {actual}, but {EXPORT_NAME} "
                f"recorded {expected}; the file was changed or damaged after its export, export it again"
            )


def verified_path(files: ModelFiles, name: str) -> Path | None:
    """Returns the file ``name`` beside the model if export.json has its hash; other files may have the name by chance.

    After :func:`verify` its content is the published one.
    """
    return files.version_folder / name if name in (files.export or {}).get("sha256", {}) else None


def file_fault(path: Path) -> str | None:
    """Describes an existing path that is no regular file, as the end of a sentence; None for a regular file.

    Opening a pipe would block until a writer opens it.
    """
    if os.path.isfile(path):
        return None
    if os.path.isdir(path):
        return "is a folder"
    return "is no regular file" if os.path.exists(path) else "is a link that points to nothing"


def plain_name(file_name: str, model: str) -> str:
    """Checks that a file name from a configuration stays in the folder of the model's version, and returns it.

    Raises:
        CorruptModelError: The name could lead out of the folder.
    """
    plain = file_name == Path(file_name).name and file_name not in ("", ".", "..") and "\0" not in file_name
    if not plain or not is_text(file_name):
        raise CorruptModelError(f"model '{model}': {file_name!r} is not a plain file name")
    return file_name

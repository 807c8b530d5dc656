"""What is on disk: a model repository in Triton's layout.

::

    REPOSITORY/NAME/config.pbtxt     optional; completed from the model file where it leaves gaps
    REPOSITORY/NAME/1/model.onnx     one folder for each version, named by a positive integer
    REPOSITORY/NAME/1/export.json    optional; hashes and provenance

Entries that start with a dot belong to a publish in progress and do not exist as far as this module is concerned.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from errno import ENOENT, ENOTDIR
from pathlib import Path
from typing import Any

from google.protobuf import text_format

from mnserve.errors import (
    CorruptModelError,
    ModelConfigError,
    ModelNotFoundError,
    RepositoryNotFoundError,
    VersionNotFoundError,
)
from mnserve.json_text import parse_json
from mnserve.names import listed
from mnserve.protocol.model_config_pb2 import ModelConfig

__all__ = [
    "MAX_VERSION_DIGITS",
    "ModelFiles",
    "list_models",
    "list_versions",
    "read_config",
    "read_model",
    "served_versions",
    "verify",
    "vouched",
]

_log = logging.getLogger(__name__)

MAX_VERSION_DIGITS = 18
"""Longest version number: what fits 64 bits whatever the digits."""
CONFIG_NAME = "config.pbtxt"
EXPORT_NAME = "export.json"
MODEL_NAME = "model.onnx"


@dataclass(frozen=True, kw_only=True)
class ModelFiles:
    """One version of one model on disk.

    Attributes:
        name: Folder name, the name under which it is served.
        version: Number of the version folder.
        config: Content of config.pbtxt, or what counts instead, with ``name`` filled in; almost empty without a file.
        model_path: The model file.
        export: Content of export.json, or None where there is none.
    """

    name: str
    version: int
    config: ModelConfig
    model_path: Path
    export: Mapping[str, Any] | None


def list_models(root: Path) -> list[str]:
    """Names of the models in ``root``, sorted. Folders whose names are no text are left out with a warning.

    Raises:
        RepositoryNotFoundError: ``root`` is not a folder, or may not be read.
    """
    try:
        entries = sorted(entry.name for entry in root.iterdir() if not entry.name.startswith(".") and entry.is_dir())
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reasons = {ENOENT: "does not exist", ENOTDIR: "is not a folder"}
        reason = getattr(error, "strerror", None) or error
        what = reasons.get(getattr(error, "errno", 0), f"cannot be read ({reason})")
        raise RepositoryNotFoundError(
            f"model repository '{root}' {what}; give the folder that holds the model folders"
        ) from error
    for name in entries:
        if not _is_text(name):
            _log.warning("the folder %r of the model repository is left out: its name is not UTF-8; rename it", name)
    return [name for name in entries if _is_text(name)]


def list_versions(root: Path, name: str) -> list[int]:
    """Versions of a model, ascending. Folders that are not positive integers of up to 18 digits are no versions.

    Raises:
        ModelNotFoundError: There is no such model.
    """
    folder = _model_folder(root, name)
    try:
        entries = list(folder.iterdir())
    except OSError as error:  # deleted since it was looked for, or nobody may read it
        reason = "is gone" if error.errno == ENOENT else f"cannot be read: {error.strerror}"
        raise ModelNotFoundError(f"model '{name}': {folder} {reason}; publish it again") from error
    versions = [
        int(entry.name)
        for entry in entries
        if entry.name.isascii()
        and entry.name.isdigit()
        and entry.name[0] != "0"
        and len(entry.name) <= MAX_VERSION_DIGITS
        and entry.is_dir()
    ]
    return sorted(versions)


def read_config(root: Path, name: str) -> ModelConfig:
    """The model's config.pbtxt with ``name`` filled in.

    Raises:
        ModelNotFoundError: There is no such model.
        ModelConfigError: The file does not parse, or names another model.
    """
    path = _model_folder(root, name) / CONFIG_NAME
    config = ModelConfig()
    if path.is_file():
        try:
            text_format.Parse(path.read_text(encoding="utf-8"), config)
        except (text_format.ParseError, UnicodeDecodeError) as error:
            raise ModelConfigError(f"model '{name}': {CONFIG_NAME} does not parse: {error}") from error
        except OSError as error:
            raise ModelConfigError(f"model '{name}': cannot read {path}: {error.strerror}") from error
    if config.name and config.name != name:
        raise ModelConfigError(
            f"model '{name}': {CONFIG_NAME} names it '{config.name}'; make the folder and the name agree"
        )
    config.name = name
    return config


def read_model(root: Path, name: str, version: int | None = None, override: ModelConfig | None = None) -> ModelFiles:
    """Finds one version of a model; the highest where none is given. The model file itself is not opened.

    Args:
        root: The repository.
        name: The model.
        version: Its version.
        override: What counts instead of config.pbtxt, with ``name`` filled in.

    Raises:
        RepositoryNotFoundError: ``root`` is not a folder.
        ModelNotFoundError: There is no such model.
        VersionNotFoundError: There is no such version, or none at all.
        ModelConfigError: config.pbtxt is malformed.
        CorruptModelError: The model file is missing, or export.json is unreadable.
    """
    versions = list_versions(root, name)
    if not versions:
        raise VersionNotFoundError(f"model '{name}' has no version folder; put the model file under {name}/1/")
    if version is None:
        version = versions[-1]
    if version not in versions:
        known = ", ".join(map(str, versions))
        raise VersionNotFoundError(f"model '{name}' has no version {version}; it has {known}")
    config = read_config(root, name) if override is None else override
    folder = root / name / str(version)
    return ModelFiles(
        name=name,
        version=version,
        config=config,
        model_path=_model_path(folder, config),
        export=_read_export(folder / EXPORT_NAME, name),
    )


def served_versions(config: ModelConfig, versions: list[int]) -> list[int]:
    """The versions that the model's version policy selects; without a policy the highest one.

    Args:
        config: The model's configuration.
        versions: Versions on disk, ascending.

    Raises:
        ModelConfigError: The policy names a version that is not on disk.
    """
    policy = config.version_policy
    if policy.HasField("all"):
        return versions
    if policy.HasField("specific"):
        wanted = sorted(set(policy.specific.versions))
        missing = [version for version in wanted if version not in versions]
        if missing:
            raise ModelConfigError(
                f"model '{config.name}': version_policy names {missing}, but the versions on disk are {versions}"
            )
        return wanted
    count = policy.latest.num_versions if policy.HasField("latest") else 1
    return versions[-max(1, count) :]


def verify(files: ModelFiles) -> None:
    """Compares the files with the hashes that export.json recorded; without export.json nothing is checked.

    Raises:
        CorruptModelError: A file is missing or was changed after it was published.
    """
    hashes = (files.export or {}).get("sha256", {})
    if not isinstance(hashes, dict):
        raise CorruptModelError(f"model '{files.name}': sha256 in {EXPORT_NAME} is not a mapping; export it again")
    for file_name, expected in hashes.items():
        path = files.model_path.parent / _plain_name(file_name, files.name)
        if not path.is_file():  # opening a pipe would wait for somebody to write into it
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


def vouched(files: ModelFiles, name: str) -> Path | None:
    """The file ``name`` beside the model where export.json vouches for it; others may have such a name by chance.

    Its content is what was published once :func:`verify` has passed.
    """
    return files.model_path.with_name(name) if name in (files.export or {}).get("sha256", {}) else None


def _model_folder(root: Path, name: str) -> Path:
    folder = root / name
    plain = name and not name.startswith(".") and not any(mark in name for mark in "/\\\0") and _is_text(name)
    if not plain or not os.path.isdir(folder):  # unlike Path.is_dir, False for names that are too long
        known = listed(list_models(root))  # raises with the reason if there is no repository
        raise ModelNotFoundError(f"model repository '{root}' has no model '{name}'; it has {known}")
    return folder


def _is_text(name: str) -> bool:
    """Whether a file name is UTF-8: bytes that are not come as lone surrogates, which no message can carry."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _plain_name(file_name: str, model: str) -> str:
    plain = file_name == Path(file_name).name and file_name not in ("", ".", "..") and "\0" not in file_name
    if not plain or not _is_text(file_name):
        raise CorruptModelError(f"model '{model}': {file_name!r} is not a plain file name")
    return file_name


def _model_path(folder: Path, config: ModelConfig) -> Path:
    file_name = _plain_name(config.default_model_filename or MODEL_NAME, config.name)
    path = folder / file_name
    if not os.path.isfile(path):  # unlike Path.is_file, False for names that are too long
        raise CorruptModelError(f"model '{config.name}' version {folder.name}: {path} is missing; export it again")
    return path


def _read_export(path: Path, name: str) -> Mapping[str, Any] | None:
    if not path.is_file():
        if path.is_symlink():
            raise CorruptModelError(f"model '{name}': {path} points to nothing; restore it, or export the model again")
        return None
    try:
        export = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CorruptModelError(f"model '{name}': {path} is unreadable ({error}); export it again") from error
    if not isinstance(export, dict):
        raise CorruptModelError(f"model '{name}': {path} is not a JSON object; export it again")
    return export

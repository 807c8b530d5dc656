"""Reader of a model repository in Triton's layout.

::

    REPOSITORY/NAME/config.pbtxt     optional; gaps are completed from the model file
    REPOSITORY/NAME/1/model.onnx     one folder for each version, named by a positive integer
    REPOSITORY/NAME/1/export.json    optional; hashes and provenance

Entries that start with a dot belong to a publish in progress and are skipped; ``listing.py`` knows what is no model.
``model.onnx`` may be a folder that holds ``model.onnx`` and its external data.
"""

from __future__ import annotations

import os
from errno import ENOENT
from pathlib import Path

from google.protobuf import text_format

from mnserve.errors import (
    CorruptModelError,
    ModelConfigError,
    ModelNotFoundError,
    VersionNotFoundError,
)
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.repository.listing import CONFIG_NAME, is_folder, list_models, version_numbers
from mnserve.repository.model_files import EXPORT_NAME, ModelFiles, file_fault, plain_name, read_export
from mnserve.text.names import is_text, listed, printable, shortened, shortened_within
from mnserve.text.text_files import read_text

MODEL_NAME = "model.onnx"
UNAVAILABLE_NAME = ".mnserve-unavailable"
"""File that stands in for a model which could not be copied from its object store; it has the reason."""


def list_versions(root: Path, name: str) -> list[int]:
    """Lists the versions of a model, ascending. Version folders are positive integers of up to 18 digits.

    Raises:
        ModelNotFoundError: There is no such model.
    """
    folder = _model_folder(root, name)
    try:
        entries = os.listdir(folder)
    except OSError as error:  # deleted meanwhile, or not readable
        fault = (
            "is gone; publish it again"
            if error.errno == ENOENT
            else f"cannot be read: {error.strerror}; let the server read it, or move it out of the repository"
        )
        raise ModelNotFoundError(f"model '{name}': {folder} {fault}") from error
    versions = version_numbers(folder, entries)
    if not versions and CONFIG_NAME not in entries:
        raise ModelNotFoundError(
            f"model '{name}' has neither a version folder nor a {CONFIG_NAME}; put the model file under {name}/1/"
        )
    return versions


def read_config(root: Path, name: str) -> ModelConfig:
    """Reads the config.pbtxt of a model, and sets its ``name``.

    Raises:
        ModelNotFoundError: There is no such model.
        ModelConfigError: The file does not parse, names another model, or is no regular file.
        CorruptModelError: The model could not be copied from its object store.
    """
    path = _model_folder(root, name) / CONFIG_NAME
    if os.path.isfile(stand_in := path.with_name(UNAVAILABLE_NAME)):
        raise CorruptModelError(read_text(stand_in))
    config = ModelConfig()
    if os.path.lexists(path):
        if fault := file_fault(path):
            raise ModelConfigError(
                f"model '{name}': {path} {fault}; put the file there, or take it away for the defaults"
            )
        try:
            text_format.Parse(read_text(path).replace("\r\n", "\n").replace("\r", "\n"), config)
        except text_format.ParseError as error:
            # The message has the whole line, which may be the whole file; what is wrong with it stands at the end.
            fault = shortened_within(str(error))
            raise ModelConfigError(f"model '{name}': {CONFIG_NAME} does not parse: {fault}") from error
        except ValueError as error:
            raise ModelConfigError(f"model '{name}': {CONFIG_NAME} cannot be read: {error}") from error
        except OSError as error:
            raise ModelConfigError(f"model '{name}': cannot read {path}: {error.strerror}") from error
    if config.name and config.name != name:
        raise ModelConfigError(
            f"model '{name}': {CONFIG_NAME} names it '{config.name}'; make the folder and the name agree"
        )
    config.name = name
    return config


def read_model(root: Path, name: str, version: int | None = None, override: ModelConfig | None = None) -> ModelFiles:
    """Finds one version of a model, by default the highest. The model file itself is not opened.

    Args:
        root: The repository.
        name: Name of the model.
        version: Number of the version.
        override: Configuration in place of config.pbtxt, with ``name`` filled in.

    Raises:
        RepositoryNotFoundError: ``root`` is not a folder.
        ModelNotFoundError: There is no such model.
        VersionNotFoundError: There is no such version, or no version at all.
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
        version_folder=folder,
        model_path=_model_path(folder, config),
        export=read_export(folder / EXPORT_NAME, name),
    )


def served_versions(config: ModelConfig, versions: list[int]) -> list[int]:
    """Selects versions by the version policy of a model; without a policy the highest one.

    Args:
        config: Configuration of the model.
        versions: Versions on disk, ascending.

    Raises:
        ModelConfigError: The policy names a version that is not on disk.
    """
    policy = config.version_policy
    if policy.HasField("all"):
        return versions
    if policy.HasField("specific"):
        selected = sorted(set(policy.specific.versions))
        missing = [version for version in selected if version not in versions]
        if missing:
            raise ModelConfigError(
                f"model '{config.name}': version_policy names {missing}, but the versions on disk are {versions}"
            )
        return selected
    count = policy.latest.num_versions if policy.HasField("latest") else 1
    return versions[-max(1, count) :]


def _model_folder(root: Path, name: str) -> Path:
    folder = root / name
    plain = name and not name.startswith(".") and not any(mark in name for mark in "/\\\0") and is_text(name)
    if not plain or not is_folder(folder):
        known = listed(list_models(root))  # raises with the reason if there is no repository
        shown = printable(shortened(name))
        raise ModelNotFoundError(f"model repository '{root}' has no model '{shown}'; it has {known}")
    return folder


def _model_path(folder: Path, config: ModelConfig) -> Path:
    """Finds the model file. A model with external data may be a folder of the file's name, as in Triton."""
    path = folder / plain_name(config.default_model_filename or MODEL_NAME, config.name)
    if os.path.isdir(path):
        path /= MODEL_NAME
    if os.path.lexists(path) and (fault := file_fault(path)):
        raise CorruptModelError(
            f"model '{config.name}' version {folder.name}: {path} {fault}; put the model there as an ONNX file"
        )
    if not os.path.isfile(path):  # unlike Path.is_file, False for names that are too long
        raise CorruptModelError(
            f"model '{config.name}' version {folder.name}: {path} is missing{_found_instead(path)}; put the model "
            "there as an ONNX file, or export it again"
        )
    return path


def _found_instead(path: Path) -> str:
    """Lists the files beside a missing model file, with a remedy where one of them may be the model."""
    try:
        names = sorted(entry.name for entry in path.parent.iterdir() if not entry.name.startswith("."))
    except OSError:
        return ""
    models = [name for name in names if name.endswith(".onnx") and os.path.isfile(path.with_name(name))]
    if not models:
        return f"; there is {listed([shortened(name) for name in names])}" if names else ""
    in_version = path.parent.name.isdecimal()
    remedy = "name it with default_model_filename in config.pbtxt" if in_version else f"rename it to {MODEL_NAME}"
    return f", but there is {shortened(models[0])}: {remedy}"

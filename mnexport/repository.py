"""A model repository in Triton's layout: which version an export becomes, and whether the model can take it.

::

    REPOSITORY/NAME/config.pbtxt      what the model takes and gives
    REPOSITORY/NAME/labels.txt        one class name a line
    REPOSITORY/NAME/VERSION/model.onnx
    REPOSITORY/NAME/VERSION/export.json
"""

import hashlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mnexport.errors import PublishError, UsageError
from mnexport.model_card import ModelCard, tensor_specs

# Triton counts versions in a signed 64-bit integer.
MAX_VERSION = 2**63 - 1
# What all versions of a model have in common, since they have one config.pbtxt.
_SHARED = ("inputs", "outputs", "labels", "platform")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_VERSION = re.compile(r"[1-9][0-9]{0,18}")


@dataclass(frozen=True, kw_only=True)
class Target:
    """Where a model goes: REPOSITORY/NAME, and which version.

    Args:
        repository: folder of all models.
        name: of the model.
        version: 1 to 2⁶³ − 1; None takes 1 for a new model and the next free number for one that exists.
        overwrite: replace the version if it exists.
    """

    repository: Path
    name: str
    version: int | None = None
    overwrite: bool = False

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise UsageError(
                f"Model name {self.name!r} is not possible; use letters, digits, '.', '_' or '-', starting with a "
                "letter or digit, as in REPOSITORY/NAME."
            )
        if self.version is not None and not 1 <= self.version <= MAX_VERSION:
            raise UsageError(f"Version {self.version} is not possible; versions are integers from 1 to {MAX_VERSION}.")

    @property
    def folder(self) -> Path:
        """REPOSITORY/NAME."""
        return self.repository / self.name

    def resolved_version(self) -> int:
        """The version that will be written.

        Raises:
            PublishError: it exists already and shall not be replaced, or no number is left.
        """
        existing = versions(self.folder)
        if self.version is None:
            number = max(existing, default=0) + 1
            if number > MAX_VERSION:
                raise PublishError(f"{self.folder} has the highest version there is ({MAX_VERSION}); give --version.")
            return number
        if self.version in existing and not self.overwrite:
            raise PublishError(
                f"{self.folder} has a version {self.version} already; give another --version, or --overwrite."
            )
        return self.version


def versions(model_folder: Path) -> list[int]:
    """The version folders of a model, ascending: those named by an integer from 1 to 2⁶³ − 1."""
    if not model_folder.is_dir():
        return []
    numbers = [int(item.name) for item in model_folder.iterdir() if _VERSION.fullmatch(item.name) and item.is_dir()]
    return sorted(number for number in numbers if number <= MAX_VERSION)


def check_target(target: Target, card: ModelCard) -> int:
    """Whether the model may be published there, and as which version; nothing is changed.

    The answer holds only while the model is locked.

    Raises:
        PublishError: the version exists, the folder is not a model of ours or cannot be written, or the interface
            differs.
    """
    if target.folder.exists():
        if not target.folder.is_dir():
            raise PublishError(f"{target.folder} is a file, not the folder of a model; publish under another name.")
        if not os.access(target.folder, os.W_OK | os.X_OK):
            raise PublishError(f"{target.folder} cannot be written: Permission denied. Nothing was published.")
    number = target.resolved_version()
    _check_interface(target, card)
    return number


def agrees(target: Target, card: ModelCard) -> bool:
    """Whether a published version takes and gives what this export does, so that ``config.pbtxt`` fits both.

    Raises:
        PublishError: a version was not written by mnexport.
    """
    return any(_interface(target, version) == _wanted(card) for version in versions(target.folder))


def sha256(path: Path) -> str:
    """Digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_interface(target: Target, card: ModelCard) -> None:
    """Versions of one model share one ``config.pbtxt``: they must take and give the same tensors.

    A model that mnexport did not write is never touched, not even by ``--overwrite``.
    """
    existing = versions(target.folder)
    if not existing and os.path.lexists(target.folder / "config.pbtxt"):
        raise PublishError(
            f"{target.folder} holds a model that mnexport did not write (it has a config.pbtxt and no version); "
            "publish under another name."
        )
    for version in existing:
        written = _interface(target, version)
        if target.overwrite and version == target.version:
            continue
        for what, old, new in zip(_SHARED, written, _wanted(card), strict=True):
            if old != new:
                raise PublishError(
                    f"{target.folder} version {version} has {what} {old}, this export {new}; versions of one model "
                    "must agree, so publish it under another name."
                )


def _interface(target: Target, version: int) -> tuple[Any, ...]:
    """What ``export.json`` of a published version records of what ``config.pbtxt`` says: one value for each name."""
    file = target.folder / str(version) / "export.json"
    try:
        written = json.loads(file.read_text(encoding="utf-8"))
        engine = (written.get("engine") or {}).get("format")
        return written["inputs"], written["outputs"], written["labels"], _platform(engine)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise PublishError(
            f"{target.folder} holds a model that mnexport did not write ({file} is missing or damaged); "
            "publish under another name."
        ) from error


def _wanted(card: ModelCard) -> tuple[Any, ...]:
    specs, labels = tensor_specs(card.signature), card.signature.labels
    return specs["inputs"], specs["outputs"], None if labels is None else list(labels), _platform(card.engine)


def _platform(engine: str | None) -> str:
    """What Triton runs: the engine of standard TensorRT, or the ONNX file."""
    return "tensorrt" if engine == "tensorrt" else "onnxruntime"

"""Target of an export: a version of a model in a repository of Triton's layout.

::

    REPOSITORY/NAME/config.pbtxt      input and outputs of the model
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
from typing import Any, NamedTuple

from mnexport.errors import PublishError, UsageError
from mnexport.repository.layout import CONFIG_NAME, RECORD_NAME
from mnexport.repository.model_card import ModelCard, VersionKind
from mntrain.regular_files import read_text, regular

# Triton counts versions in a signed 64-bit integer.
MAX_VERSION = 2**63 - 1
# Content of config.pbtxt beside max_batch_size and the platform; versions share one file, so it is true of all.
_SHARED = ("inputs", "outputs", "labels", "input")
# The same, of models alone that state them.
_LIMITS = ("row_limit", "value_ranges")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_VERSION = re.compile(r"[1-9][0-9]{0,18}")


@dataclass(frozen=True, kw_only=True)
class Target:
    """Place of a model: REPOSITORY/NAME, and its version.

    Args:
        repository: folder of all models.
        name: of the model.
        version: 1 to 2⁶³ − 1; None takes 1 for a new model and the next free number for one that exists.
        overwrite: replace ``version`` if it exists; without a version there is nothing to replace.

    Raises:
        UsageError: a name or a version that cannot be, or ``overwrite`` without a version.
    """

    repository: Path
    name: str
    version: int | None = None
    overwrite: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "repository", Path(self.repository))  # callers who check no types give a text, too
        if not _NAME.fullmatch(self.name):
            raise UsageError(
                f"Model name {self.name!r} is not possible; use letters, digits, '.', '_' or '-', starting with a "
                "letter or digit, as in REPOSITORY/NAME."
            )
        if self.version is not None and not 1 <= self.version <= MAX_VERSION:
            raise UsageError(f"Version {self.version} is not possible; versions are integers from 1 to {MAX_VERSION}.")
        if self.overwrite and self.version is None:
            raise UsageError(
                "--overwrite replaces the version that --version names; add --version N, or leave --overwrite out to "
                "publish the next version."
            )

    @property
    def folder(self) -> Path:
        """REPOSITORY/NAME."""
        return self.repository / self.name

    def resolved_version(self) -> int:
        """Choose the version that will be written.

        Raises:
            PublishError: the version exists already and shall not be replaced, or no number is left.
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
    """List the version folders of a model, ascending: those named by an integer from 1 to 2⁶³ − 1."""
    if not model_folder.is_dir():
        return []
    numbers = [int(item.name) for item in model_folder.iterdir() if _VERSION.fullmatch(item.name) and item.is_dir()]
    return sorted(number for number in numbers if number <= MAX_VERSION)


def check_target(target: Target, card: ModelCard) -> int:
    """Choose the version of an export and refuse one that the model cannot take; nothing is changed.

    The version is right only while the model is locked.

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
    """Tell if a published version has the signature of this export, so that ``config.pbtxt`` fits both.

    Raises:
        PublishError: a version was not written by mnexport.
    """
    return any(_recorded(target, version).shared == _shared(card) for version in versions(target.folder))


def sha256(path: Path) -> str:
    """Compute the digest of a file."""
    with regular(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def kinds_of(target: Target) -> dict[int, VersionKind]:
    """Read family, form and finding of each published version.

    Raises:
        PublishError: a version was not written by mnexport.
    """
    return {version: _recorded(target, version).kind for version in versions(target.folder)}


def _check_interface(target: Target, card: ModelCard) -> None:
    """Refuse an export that the model's ``config.pbtxt``, which all versions share, would not describe.

    A model that mnexport did not write is never touched, not even by ``--overwrite``.
    """
    existing = versions(target.folder)
    if not existing and os.path.lexists(target.folder / CONFIG_NAME):
        raise PublishError(
            f"{target.folder} holds a model that mnexport did not write (it has a config.pbtxt and no version); "
            "publish under another name."
        )
    shared = _shared(card)
    for version in existing:
        recorded = _recorded(target, version).shared
        if target.overwrite and version == target.version:
            continue
        for key, old in recorded.items():
            if old != shared[key]:
                remedy = "publish it"
                if key in ("max_batch_size", "row_limit") and old is not None:
                    rows = old if key == "max_batch_size" else old["most"]
                    remedy = f"give --max-batch-size {rows}, or publish it"
                raise PublishError(
                    f"{target.folder} version {version} has {key} {old}, this export {shared[key]}; versions of one "
                    f"model share one config.pbtxt and must agree, so {remedy} under another name."
                )


class _RecordedVersion(NamedTuple):
    """A published version as its ``export.json`` records it."""

    shared: dict[str, Any]
    kind: VersionKind


def _recorded(target: Target, version: int) -> _RecordedVersion:
    """Read the record of a published version.

    Raises:
        PublishError: the version was not written by mnexport.
    """
    file = target.folder / str(version) / RECORD_NAME
    try:
        record = json.loads(read_text(file))
        engine = (record.get("engine") or {}).get("format")
        shared = {key: record[key] for key in _SHARED} | {"platform": _platform(engine)}
        shared |= {key: record.get(key) for key in _LIMITS}
        shared["max_batch_size"] = record["max_batch_size"] if "max_batch_size" in record else _configured(target)
        return _RecordedVersion(shared, VersionKind(record["family"], record["form"], str(record.get("finding", ""))))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise PublishError(
            f"{target.folder} holds a model that mnexport did not write ({file} is missing or damaged); "
            "publish under another name."
        ) from error


def _configured(target: Target) -> int:
    """Read ``max_batch_size`` of ``config.pbtxt``: older files ``export.json`` do not repeat it.

    Raises:
        OSError, ValueError: the file or the number is missing.
    """
    for line in read_text(target.folder / CONFIG_NAME).splitlines():
        if line.startswith("max_batch_size:"):
            return int(line.partition(":")[2])
    raise ValueError("config.pbtxt has no max_batch_size")


def _shared(card: ModelCard) -> dict[str, Any]:
    values = card.to_dict()
    shared = {key: values[key] for key in (*_SHARED, "max_batch_size")} | {key: values.get(key) for key in _LIMITS}
    return shared | {"platform": _platform(card.engine)}


def _platform(engine: str | None) -> str:
    """Name the platform in Triton: the engine of standard TensorRT, or the ONNX file."""
    return "tensorrt" if engine == "tensorrt" else "onnxruntime"

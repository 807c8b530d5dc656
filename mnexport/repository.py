"""A model repository in Triton's layout, to which a model is added whole or not at all.

::

    REPOSITORY/NAME/config.pbtxt      what the model takes and gives
    REPOSITORY/NAME/labels.txt        one class name a line
    REPOSITORY/NAME/VERSION/model.onnx
    REPOSITORY/NAME/VERSION/export.json

A new model appears by renaming a finished folder. A further version of a model appears in the same way inside the
model's folder. Folders in the making start with a dot.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mnexport.errors import PublishError, UsageError
from mnexport.graph import INPUT, OUTPUTS, InputType
from mntrain.artifact import InputSpec
from mntrain.files import folder_atomically, write_text_atomically

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_TRITON_TYPES = {"uint8": "TYPE_UINT8", "float32": "TYPE_FP32"}
SCALES = {"uint8": "0..255", "float32": "0..1"}


@dataclass(frozen=True, kw_only=True)
class Target:
    """Where a model goes: REPOSITORY/NAME, and which version.

    Args:
        repository: folder of all models.
        name: of the model.
        version: None takes 1 for a new model and the next free number for one that exists.
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
        if self.version is not None and self.version < 1:
            raise UsageError(f"Version {self.version} is not possible; versions are integers from 1.")

    @property
    def folder(self) -> Path:
        """REPOSITORY/NAME."""
        return self.repository / self.name

    def resolved_version(self) -> int:
        """The version that will be written.

        Raises:
            PublishError: it exists already and shall not be replaced.
        """
        existing = versions(self.folder)
        if self.version is None:
            return max(existing, default=0) + 1
        if self.version in existing and not self.overwrite:
            raise PublishError(
                f"{self.folder} has a version {self.version} already; give another --version, or --overwrite."
            )
        return self.version


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """What ``config.pbtxt`` says about a model.

    Args:
        input: size of the images.
        input_type: uint8 or float32.
        labels: class names, in the order of the logits.
        max_batch_size: rows the server may put into one batch.
        family: model family.
        form: static form.
    """

    input: InputSpec
    input_type: InputType
    labels: tuple[str, ...]
    max_batch_size: int
    family: str
    form: str

    @property
    def input_description(self) -> dict[str, str]:
        """How pixels are laid out, for clients that turn image files into tensors."""
        return {"layout": "NCHW", "color": self.input.color, "scale": SCALES[self.input_type]}

    def config_pbtxt(self, name: str) -> str:
        """The text of ``config.pbtxt``."""
        size = f"{self.input.channels}, {self.input.height}, {self.input.width}"
        parameters = {
            "mn.family": self.family,
            "mn.form": self.form,
            "mn.input": json.dumps(self.input_description),
            "mn.labels": json.dumps(list(self.labels), ensure_ascii=False),
        }
        lines = [
            f"name: {_quoted(name)}",
            'backend: "onnxruntime"',
            'platform: "onnxruntime_onnx"',
            f"max_batch_size: {self.max_batch_size}",
            f"input {{ name: {_quoted(INPUT)} data_type: {_TRITON_TYPES[self.input_type]} dims: [ {size} ] }}",
        ]
        for output in OUTPUTS:
            labels = ' label_filename: "labels.txt"' if output == "probabilities" else ""
            lines.append(
                f"output {{ name: {_quoted(output)} data_type: TYPE_FP32 dims: [ {len(self.labels)} ]{labels} }}"
            )
        lines.append("dynamic_batching { }")
        lines += [
            f"parameters {{ key: {_quoted(key)} value {{ string_value: {_quoted(value)} }} }}"
            for key, value in parameters.items()
        ]
        return "\n".join(lines) + "\n"

    def labels_txt(self) -> str:
        """One label a line; line breaks inside a label become spaces."""
        return "".join(" ".join(label.split()) + "\n" for label in self.labels)


def versions(model_folder: Path) -> list[int]:
    """The integer version folders of a model, ascending."""
    if not model_folder.is_dir():
        return []
    return sorted(int(item.name) for item in model_folder.iterdir() if item.name.isdecimal() and item.is_dir())


@contextmanager
def publishing(target: Target, version: int, card: ModelCard) -> Iterator[Path]:
    """A folder to put ``model.onnx`` and ``export.json`` into; published when the block ends without an error.

    Raises:
        PublishError: the repository cannot be written.
    """
    config, labels = card.config_pbtxt(target.name), card.labels_txt()
    try:
        if target.folder.exists():
            with folder_atomically(target.folder / str(version)) as folder:
                yield folder
            write_text_atomically(target.folder / "labels.txt", labels)
            write_text_atomically(target.folder / "config.pbtxt", config)
        else:
            with folder_atomically(target.folder) as model:
                (model / "config.pbtxt").write_text(config, encoding="utf-8")
                (model / "labels.txt").write_text(labels, encoding="utf-8")
                folder = model / str(version)
                folder.mkdir()
                yield folder
    except OSError as error:
        raise PublishError(
            f"{target.folder} cannot be written: {error.strerror or error}. Nothing was published."
        ) from error


def sha256(path: Path) -> str:
    """Digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_interface(target: Target, card: ModelCard) -> None:
    """Versions of one model share one ``config.pbtxt``: they must take and give the same tensors.

    Raises:
        PublishError: an existing model of that name takes or gives others, or cannot be compared.
    """
    existing = versions(target.folder)
    others = [version for version in existing if not (target.overwrite and version == target.version)]
    if not others:
        return
    newest = target.folder / str(others[-1]) / "export.json"
    try:
        written: dict[str, Any] = json.loads(newest.read_text(encoding="utf-8"))
        before = (written["inputs"], written["labels"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PublishError(
            f"{target.folder} holds a model that mnexport did not write ({newest} is missing or damaged); "
            "publish under another name."
        ) from error
    now = (tensor_specs(card)["inputs"], list(card.labels))
    for what, old, new in zip(("inputs", "labels"), before, now, strict=True):
        if old != new:
            raise PublishError(
                f"{target.folder} version {others[-1]} has {what} {old}, this export {new}; versions of one model must "
                "agree, so publish it under another name."
            )


def tensor_specs(card: ModelCard) -> dict[str, list[dict[str, Any]]]:
    """Inputs and outputs as ``export.json`` lists them; −1 is the batch axis."""
    datatype = {"uint8": "UINT8", "float32": "FP32"}[card.input_type]
    shape = [-1, card.input.channels, card.input.height, card.input.width]
    return {
        "inputs": [{"name": INPUT, "datatype": datatype, "shape": shape}],
        "outputs": [{"name": name, "datatype": "FP32", "shape": [-1, len(card.labels)]} for name in OUTPUTS],
    }


def _quoted(text: str) -> str:
    r"""A string in protobuf text format: printable ASCII stands for itself, every other byte is an octal escape."""
    escaped = "".join(
        chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03o}" for byte in text.encode()
    )
    return f'"{escaped}"'

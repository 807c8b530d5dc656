"""Description of a published model: ``config.pbtxt``, ``labels.txt``, and the tensors of ``export.json``."""

import json
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from mnexport.errors import PublishError
from mnexport.repository.input_limits import InputLimits
from mnexport.repository.layout import LABELS_NAME
from mnexport.signature import DataType, ExportSignature, ExportTensor
from mnexport.tensorrt import ENGINE_NAMES, EngineFormat

_TRITON_TYPES: dict[DataType, str] = {
    "UINT8": "TYPE_UINT8",
    "FP32": "TYPE_FP32",
    "INT64": "TYPE_INT64",
    "BYTES": "TYPE_STRING",
}

_ALLOW_NAN = "allow_nan"
"""Parameter that lets a server pass NaN, not infinity."""


class VersionKind(NamedTuple):
    """What versions of a model may differ in: all have one signature, whatever they compute.

    Args:
        family: model family.
        form: static form.
        finding: where explanations mean nothing or the dictionary does not act, as sentences; empty elsewhere.
    """

    family: str
    form: str
    finding: str = ""


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """Content of ``config.pbtxt``.

    Args:
        signature: inputs and outputs.
        max_batch_size: rows the server may put into one batch; 0 for tensors without a batch axis.
        family: model family.
        form: static form.
        engine: tensorrt where Triton shall run the engine instead of the ONNX file.
        finding: what clients that show explanations should tell with them.
        limits: of requests; None where ``max_batch_size`` says all.

    Raises:
        PublishError: a label has no visible character, or one that steers a terminal.
    """

    signature: ExportSignature
    max_batch_size: int
    family: str
    form: str
    engine: EngineFormat | None = None
    finding: str = ""
    limits: InputLimits | None = None

    def __post_init__(self) -> None:
        for index, label in enumerate(self.signature.labels or ()):
            if not any(letter.isprintable() and not letter.isspace() for letter in label):
                raise PublishError(
                    f"Class {index} is called {label!r}, which nobody can read in labels.txt; give every class a "
                    "visible name in the artifact's config.json."
                )
            control = [letter for letter in label if unicodedata.category(letter) == "Cc" and not letter.isspace()]
            if control:
                raise PublishError(
                    f"Class {index} is called {label!r}, which holds the control character {control[0]!r}; it would "
                    "steer the terminal of whoever reads the answers, so name the class without it in the artifact's "
                    "config.json."
                )

    @property
    def kind(self) -> VersionKind:
        """Family, form and finding: versions of one model may differ in them."""
        return VersionKind(family=self.family, form=self.form, finding=self.finding)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for ``export.json``."""
        labels = self.signature.labels
        return {
            "family": self.family,
            "form": self.form,
            "finding": self.finding,
            "max_batch_size": self.max_batch_size,
            **({} if self.limits is None else self.limits.to_dict()),
            "input": self.signature.description,
            "labels": None if labels is None else list(labels),
            **tensor_specs(self.signature),
        }

    def config_pbtxt(self, name: str, kinds: Mapping[int, VersionKind] | None = None) -> str:
        """Write the text of ``config.pbtxt``.

        Args:
            name: of the model.
            kinds: of all versions, by number; where they differ, the text names each version. None stands for this
                version alone.
        """
        kinds = {1: self.kind} if kinds is None else kinds
        parameters = {
            "mn.family": _of_versions({version: kind.family for version, kind in kinds.items()}),
            "mn.form": _of_versions({version: kind.form for version, kind in kinds.items()}),
            "mn.input": json.dumps(self.signature.description, ensure_ascii=False),
        }
        if self.signature.labels is not None:
            parameters["mn.labels"] = json.dumps(list(self.signature.labels), ensure_ascii=False)
        if self.signature.takes_nan:
            parameters[_ALLOW_NAN] = "true"
        on_request = [output.name for output in self.signature.outputs if output.on_request]
        if on_request:
            parameters["mn.on_request"] = json.dumps(on_request)
        if self.limits is not None:
            parameters |= self.limits.parameters()
        findings = {version: kind.finding for version, kind in kinds.items()}
        if any(findings.values()):
            parameters["mn.finding"] = _of_versions({key: text for key, text in findings.items() if text}, len(kinds))
        lines = [
            f"name: {_quoted(name)}",
            *_runtime(self.engine),
            f"max_batch_size: {self.max_batch_size}",
            *(f"input {{ {_declared(tensor)} }}" for tensor in self.signature.inputs),
        ]
        for output in self.signature.outputs:
            named = output.name == "probabilities" and self.signature.labels is not None
            labels = f" label_filename: {_quoted(LABELS_NAME)}" if named else ""
            lines.append(f"output {{ {_declared(output)}{labels} }}")
        if self.signature.batched:
            lines.append("dynamic_batching { }")
        lines += [
            f"parameters {{ key: {_quoted(key)} value {{ string_value: {_quoted(value)} }} }}"
            for key, value in parameters.items()
        ]
        return "\n".join(lines) + "\n"

    def labels_txt(self) -> str | None:
        """Write one label a line; line breaks inside a label become spaces. None for a model without classes."""
        if self.signature.labels is None:
            return None
        return "".join(" ".join(label.split()) + "\n" for label in self.signature.labels)


def tensor_specs(signature: ExportSignature) -> dict[str, list[dict[str, Any]]]:
    """List inputs and outputs for ``export.json``; −1 is the batch axis."""

    def listed(tensor: ExportTensor) -> dict[str, Any]:
        shape = (-1, *tensor.shape) if signature.batched else tensor.shape
        return {"name": tensor.name, "datatype": tensor.datatype, "shape": list(shape)}

    return {
        "inputs": [listed(tensor) for tensor in signature.inputs],
        "outputs": [listed(output) for output in signature.outputs],
    }


def _of_versions(words: Mapping[int, str], total: int | None = None) -> str:
    """Join words of versions; where all versions, ``total`` of them, have the same, that word alone."""
    if len(set(words.values())) == 1 and len(words) == (total or len(words)):
        return next(iter(words.values()))
    return ", ".join(f"{word} (version {version})" for version, word in sorted(words.items()))


def _runtime(engine: EngineFormat | None) -> list[str]:
    if engine == "tensorrt":
        name = _quoted(ENGINE_NAMES[engine])
        return ['backend: "tensorrt"', 'platform: "tensorrt_plan"', f"default_model_filename: {name}"]
    # No server has a backend for engines of TensorRT for RTX: they are for programs that load them themselves.
    return ['backend: "onnxruntime"', 'platform: "onnxruntime_onnx"']


def _declared(tensor: ExportTensor) -> str:
    dims = ", ".join(map(str, tensor.shape))
    return f"name: {_quoted(tensor.name)} data_type: {_TRITON_TYPES[tensor.datatype]} dims: [ {dims} ]"


def _quoted(text: str) -> str:
    r"""Quote a string for protobuf's text format: printable ASCII as it is, every other byte as an octal escape."""
    escaped = "".join(
        chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03o}" for byte in text.encode()
    )
    return f'"{escaped}"'

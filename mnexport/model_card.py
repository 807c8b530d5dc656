"""What a published model says about itself: ``config.pbtxt``, ``labels.txt``, and the tensors of ``export.json``."""

import json
from dataclasses import dataclass
from typing import Any

from mnexport.errors import PublishError
from mnexport.graph import INPUT, OUTPUTS, InputType
from mntrain.artifact import InputSpec

_TRITON_TYPES = {"uint8": "TYPE_UINT8", "float32": "TYPE_FP32"}
SCALES = {"uint8": "0..255", "float32": "0..1"}


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

    Raises:
        PublishError: a label has no visible character.
    """

    input: InputSpec
    input_type: InputType
    labels: tuple[str, ...]
    max_batch_size: int
    family: str
    form: str

    def __post_init__(self) -> None:
        for index, label in enumerate(self.labels):
            if not any(letter.isprintable() and not letter.isspace() for letter in label):
                raise PublishError(
                    f"Class {index} is called {label!r}, which nobody can read in labels.txt; give every class a "
                    "visible name in the artifact's config.json."
                )

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

"""Signature of an exported model: its input and outputs.

Shapes: of one example, without the batch axis. Image [channels, H, W], row [F]; logits and probabilities [C], value
[1].
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mntrain.artifact_config import InputSpec

InputType = Literal["uint8", "float32"]
DataType = Literal["UINT8", "FP32", "INT64"]
_DATATYPES: dict[InputType, DataType] = {"uint8": "UINT8", "float32": "FP32"}
_SCALES = {"uint8": "0..255", "float32": "0..1"}


@dataclass(frozen=True, kw_only=True)
class ExportTensor:
    """An input or output by name.

    Args:
        name: in the graph and on the wire.
        datatype: as the Open Inference Protocol names it.
        shape: of one example.
        on_request: part of the explanation, computed only for requests that name it.
    """

    name: str
    datatype: DataType
    shape: tuple[int, ...]
    on_request: bool = False


@dataclass(frozen=True, kw_only=True)
class ExportSignature:
    """Input and outputs of a model.

    Args:
        input: tensor it takes.
        input_type: the dtype of the input as NumPy names it.
        outputs: tensors it gives.
        labels: class names, in the order of the logits; None for a model that estimates values.
        description: how the input is laid out, for clients that make it from files.
    """

    input: ExportTensor
    input_type: InputType
    outputs: tuple[ExportTensor, ...]
    labels: tuple[str, ...] | None
    description: dict[str, Any]

    @property
    def explains(self) -> bool:
        """Tell if an output is part of the explanation."""
        return any(output.on_request for output in self.outputs)

    def without_explanation(self) -> "ExportSignature":
        """Return the signature without outputs on request."""
        return replace(self, outputs=tuple(output for output in self.outputs if not output.on_request))

    def as_input(self, examples: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Convert stored examples to inputs of the model: pixels 0..255 become 0..1 for a float32 input of images."""
        if examples.dtype == np.uint8 and self.input_type == "float32":
            return examples.astype(np.float32) / np.float32(255)
        return examples


def image_signature(
    size: InputSpec, labels: tuple[str, ...], input_type: InputType = "uint8", explain: int = 0
) -> ExportSignature:
    """Make the signature of a classifier of images that tells ``explain`` neighbors."""
    shape = (size.channels, size.height, size.width)
    fit = {} if size.fit is None else {"fit": size.fit}
    return ExportSignature(
        input=ExportTensor(name="image", datatype=_DATATYPES[input_type], shape=shape),
        input_type=input_type,
        outputs=_classifier_outputs(len(labels), explain),
        labels=labels,
        description={"layout": "NCHW", "color": size.color, "scale": _SCALES[input_type], **fit},
    )


def table_signature(
    columns: tuple[str, ...], target: str, labels: tuple[str, ...] | None = None, explain: int = 0
) -> ExportSignature:
    """Make the signature of a model of rows that tells ``explain`` neighbors.

    Rows are float32 in the columns' own units. Without labels the model estimates values of ``target``.
    """
    outputs = _regressor_outputs(explain) if labels is None else _classifier_outputs(len(labels), explain)
    return ExportSignature(
        input=ExportTensor(name="row", datatype="FP32", shape=(len(columns),)),
        input_type="float32",
        outputs=outputs,
        labels=labels,
        description={"layout": "rows", "columns": list(columns), "target": target},
    )


def _classifier_outputs(classes: int, explain: int) -> tuple[ExportTensor, ...]:
    logits, probabilities, unadapted = (
        ExportTensor(name=name, datatype="FP32", shape=(classes,), on_request=name.startswith("unadapted"))
        for name in ("logits", "probabilities", "unadapted_probabilities")
    )
    labels = ExportTensor(name="neighbor_labels", datatype="INT64", shape=(explain,), on_request=True)
    return (logits, probabilities, *((*_neighbors(explain), labels, unadapted) if explain else ()))


def _regressor_outputs(explain: int) -> tuple[ExportTensor, ...]:
    value = ExportTensor(name="value", datatype="FP32", shape=(1,))
    values = ExportTensor(name="neighbor_values", datatype="FP32", shape=(explain,), on_request=True)
    unadapted = ExportTensor(name="unadapted_value", datatype="FP32", shape=(1,), on_request=True)
    return (value, *((*_neighbors(explain), values, unadapted) if explain else ()))


def _neighbors(explain: int) -> tuple[ExportTensor, ExportTensor]:
    return (
        ExportTensor(name="neighbor_indices", datatype="INT64", shape=(explain,), on_request=True),
        ExportTensor(name="neighbor_weights", datatype="FP32", shape=(explain,), on_request=True),
    )

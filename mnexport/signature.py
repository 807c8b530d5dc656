"""Signature of an exported model: its inputs and outputs.

Shapes: of one example, without the batch axis. Image [channels, H, W]; numbers of a row [Fn], its categories [Fc], and
as it is stored and traced [Fn + Fc]; logits and probabilities [C]; values of T targets [T].
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mntrain.artifact_config import InputSpec

InputType = Literal["uint8", "float32"]
DataType = Literal["UINT8", "FP32", "INT64", "BYTES"]
_DATATYPES: dict[InputType, DataType] = {"uint8": "UINT8", "float32": "FP32"}
_SCALES = {"uint8": "0..255", "float32": "0..1"}
# Bytes of all values of categories, which servers read from one text; few enough for a message to every client.
_MOST_LISTED = 2**18
ROW, CATEGORIES = "row", "categories"
"""Names of the inputs of a model of rows."""


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
    """Inputs and outputs of a model.

    Args:
        inputs: tensors it takes: one of images; numbers and categories of rows, where there are any.
        input_type: the dtype of stored examples in the traced graph, as NumPy names it.
        outputs: tensors it gives.
        labels: class names, in the order of the logits; None for a model that estimates values.
        description: how the inputs are laid out, for clients that make them from files.
        vocabularies: values of each category column; a stored row has their positions.
        takes_nan: NaN stands for a missing number, which the graph fills in.
        batched: tensors have a batch axis before their shapes, so that a server may join requests.
    """

    inputs: tuple[ExportTensor, ...]
    input_type: InputType
    outputs: tuple[ExportTensor, ...]
    labels: tuple[str, ...] | None
    description: dict[str, Any]
    vocabularies: tuple[tuple[str, ...], ...] = ()
    takes_nan: bool = False
    batched: bool = True

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """Shape of a stored example, which the traced graph takes."""
        if not self.vocabularies:
            return self.inputs[0].shape
        return (sum(tensor.shape[0] for tensor in self.inputs),)

    @property
    def explains(self) -> bool:
        """Tell if an output is part of the explanation."""
        return any(output.on_request for output in self.outputs)

    def without_explanation(self) -> "ExportSignature":
        """Return the signature without outputs on request."""
        return replace(self, outputs=tuple(output for output in self.outputs if not output.on_request))

    def as_input(self, examples: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Convert stored examples to inputs of the traced graph: pixels 0..255 become 0..1 for float32 images."""
        if examples.dtype == np.uint8 and self.input_type == "float32":
            return examples.astype(np.float32) / np.float32(255)
        return examples

    def feeds(self, examples: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
        """Convert stored examples to inputs of the ONNX file, as a client would send them.

        A code becomes its category. −1 becomes in turn an empty string, for a missing category, and an unknown one.
        """
        if not self.vocabularies:
            return {self.inputs[0].name: self.as_input(examples)}
        numbers = self.stored_shape[0] - len(self.vocabularies)
        columns = [
            _strings(codes.astype(np.int64), values, column)
            for column, (codes, values) in enumerate(zip(examples.T[numbers:], self.vocabularies, strict=True))
        ]
        arrays = {ROW: np.ascontiguousarray(examples[:, :numbers]), CATEGORIES: np.stack(columns, axis=1)}
        return {tensor.name: arrays[tensor.name] for tensor in self.inputs}


def image_signature(
    size: InputSpec, labels: tuple[str, ...], input_type: InputType = "uint8", explain: int = 0
) -> ExportSignature:
    """Make the signature of a classifier of images that tells ``explain`` neighbors."""
    shape = (size.channels, size.height, size.width)
    fit = {} if size.fit is None else {"fit": size.fit}
    return ExportSignature(
        inputs=(ExportTensor(name="image", datatype=_DATATYPES[input_type], shape=shape),),
        input_type=input_type,
        outputs=_classifier_outputs(len(labels), explain),
        labels=labels,
        description={"layout": "NCHW", "color": size.color, "scale": _SCALES[input_type], **fit},
    )


@dataclass(frozen=True, kw_only=True)
class RowInterface:
    """Columns of a model of rows.

    Args:
        columns: names of the columns of numbers, then those of categories.
        categories: values of each category column, by name.
        targets: names of the targets.
        takes_nan: NaN stands for a missing number.
    """

    columns: tuple[str, ...]
    targets: tuple[str, ...]
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    takes_nan: bool = False

    def description(self) -> dict[str, Any]:
        """Describe the columns for clients that lay rows out; the longest lists of categories are left out."""
        categories: dict[str, list[str]] = {name: [] for name in self.categories}
        sizes = {name: sum(len(value.encode()) for value in values) for name, values in self.categories.items()}
        room = _MOST_LISTED
        for name in sorted(sizes, key=lambda name: sizes[name]):
            room -= sizes[name]
            if room >= 0:
                categories[name] = list(self.categories[name])
        one = len(self.targets) == 1
        return {
            "layout": "rows",
            "columns": list(self.columns),
            **({"categories": categories} if categories else {}),
            **({"target": self.targets[0]} if one else {"targets": list(self.targets)}),
        }


def table_signature(rows: RowInterface, labels: tuple[str, ...] | None = None, explain: int = 0) -> ExportSignature:
    """Make the signature of a model of rows that tells ``explain`` neighbors.

    Numbers are float32 in the columns' own units, categories strings. Without labels the model estimates values of the
    targets.
    """
    categories = len(rows.categories)
    inputs = (
        ExportTensor(name=ROW, datatype="FP32", shape=(len(rows.columns) - categories,)),
        ExportTensor(name=CATEGORIES, datatype="BYTES", shape=(categories,)),
    )
    return ExportSignature(
        inputs=tuple(tensor for tensor in inputs if tensor.shape[0]),
        input_type="float32",
        outputs=(
            _regressor_outputs(len(rows.targets), explain)
            if labels is None
            else _classifier_outputs(len(labels), explain)
        ),
        labels=labels,
        description=rows.description(),
        vocabularies=tuple(tuple(values) for values in rows.categories.values()),
        takes_nan=rows.takes_nan,
    )


def _classifier_outputs(classes: int, explain: int) -> tuple[ExportTensor, ...]:
    logits, probabilities, unadapted = (
        ExportTensor(name=name, datatype="FP32", shape=(classes,), on_request=name.startswith("unadapted"))
        for name in ("logits", "probabilities", "unadapted_probabilities")
    )
    labels = ExportTensor(name="neighbor_labels", datatype="INT64", shape=(explain,), on_request=True)
    return (logits, probabilities, *((*_neighbors(explain), labels, unadapted) if explain else ()))


def _regressor_outputs(targets: int, explain: int) -> tuple[ExportTensor, ...]:
    of_entry = (explain,) if targets == 1 else (explain, targets)
    value, unadapted = (
        ExportTensor(name=name, datatype="FP32", shape=(targets,), on_request=name != "value")
        for name in ("value", "unadapted_value")
    )
    values = ExportTensor(name="neighbor_values", datatype="FP32", shape=of_entry, on_request=True)
    return (value, *((*_neighbors(explain), values, unadapted) if explain else ()))


def _neighbors(explain: int) -> tuple[ExportTensor, ExportTensor]:
    return (
        ExportTensor(name="neighbor_indices", datatype="INT64", shape=(explain,), on_request=True),
        ExportTensor(name="neighbor_weights", datatype="FP32", shape=(explain,), on_request=True),
    )


def _strings(codes: npt.NDArray[np.int64], values: tuple[str, ...], column: int) -> npt.NDArray[np.object_]:
    """Convert codes [N] to categories; every other unknown one is empty."""
    unknown = "unknown"
    while unknown in values:
        unknown += "_"
    words = np.array([*values, "", unknown], dtype=object)
    neither = len(values) + (np.arange(len(codes)) + column) % 2
    strings: npt.NDArray[np.object_] = words[np.where(codes < 0, neither, codes)]
    return strings

"""What goes into an exported model and what comes out of it.

Shapes: of one example, without the batch axis. Image [channels, H, W], row [F]; logits and probabilities [C], value
[1].
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mntrain.artifact_config import ImageArtifactConfig, TableArtifactConfig

InputType = Literal["uint8", "float32"]
DataType = Literal["UINT8", "FP32"]
_DATATYPES: dict[InputType, DataType] = {"uint8": "UINT8", "float32": "FP32"}
_SCALES = {"uint8": "0..255", "float32": "0..1"}


@dataclass(frozen=True, kw_only=True)
class TensorSpec:
    """A tensor by name.

    Args:
        name: in the graph and on the wire.
        datatype: as the Open Inference Protocol names it.
        shape: of one example.
    """

    name: str
    datatype: DataType
    shape: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Signature:
    """What a model takes and gives.

    Args:
        input: what it takes.
        input_type: the dtype of the input as NumPy names it.
        outputs: what it gives.
        labels: class names, in the order of the logits; None for a model that estimates values.
        description: how the input is laid out, for clients that make it from files.
    """

    input: TensorSpec
    input_type: InputType
    outputs: tuple[TensorSpec, ...]
    labels: tuple[str, ...] | None
    description: dict[str, Any]

    def as_input(self, examples: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Stored examples as the model takes them: pixels 0..255 become 0..1 for a float32 input of images."""
        if examples.dtype == np.uint8 and self.input_type == "float32":
            return examples.astype(np.float32) / np.float32(255)
        return examples


def image_signature(config: ImageArtifactConfig, input_type: InputType) -> Signature:
    """Of a classifier of images."""
    size = config.input
    shape = (size.channels, size.height, size.width)
    return Signature(
        input=TensorSpec(name="image", datatype=_DATATYPES[input_type], shape=shape),
        input_type=input_type,
        outputs=_classifier_outputs(len(config.labels)),
        labels=config.labels,
        description={"layout": "NCHW", "color": size.color, "scale": _SCALES[input_type]},
    )


def table_signature(config: TableArtifactConfig) -> Signature:
    """Of a model of rows: float32 in the columns' own units."""
    value = (TensorSpec(name="value", datatype="FP32", shape=(1,)),)
    return Signature(
        input=TensorSpec(name="row", datatype="FP32", shape=(len(config.columns),)),
        input_type="float32",
        outputs=value if config.labels is None else _classifier_outputs(len(config.labels)),
        labels=config.labels,
        description={"layout": "rows", "columns": list(config.columns), "target": config.target},
    )


def _classifier_outputs(classes: int) -> tuple[TensorSpec, ...]:
    names = ("logits", "probabilities")
    return tuple(TensorSpec(name=name, datatype="FP32", shape=(classes,)) for name in names)

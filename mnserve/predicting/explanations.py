"""Explanations of answers: the learned neighbors that shaped an answer, and the answer without adaptation.

Shapes: B images in a batch, C classes, K neighbors, the most important first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnserve.errors import ImageModelError
from mnserve.predicting.training_images import TrainingImage, TrainingImages
from mnserve.protocol import model_config_pb2 as pb

_INDICES, _WEIGHTS, _LABELS = "neighbor_indices", "neighbor_weights", "neighbor_labels"
UNADAPTED = "unadapted_probabilities"
"""Output with the probabilities of all classes without adaptation."""
_ROUNDING = 1e-3
EXPLANATION = (_INDICES, _WEIGHTS, _LABELS, UNADAPTED)
"""Outputs of a model that can explain its answers."""


@dataclass(frozen=True, kw_only=True)
class Neighbor:
    """An entry of the model's dictionary.

    Attributes:
        entry: Number of the entry.
        label: Class of the entry.
        weight: Share of the attention, 0 to 1.
        images: Training images nearest to the entry, the nearest first; empty if they are unknown.
    """

    entry: int
    label: str
    weight: float
    images: tuple[TrainingImage, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Returns plain JSON values."""
        plain = {"entry": self.entry, "label": self.label, "weight": self.weight}
        images = [{"position": image.position, "label": image.label} for image in self.images]
        return plain | {"training_images": images} if images else plain


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Explanation of one answer.

    Attributes:
        neighbors: Neighbors, the most important first.
        unadapted_label: Class without adaptation.
        unadapted_probability: Probability of this class.
    """

    neighbors: tuple[Neighbor, ...]
    unadapted_label: str
    unadapted_probability: float

    def to_json(self) -> dict[str, Any]:
        """Returns plain JSON values."""
        return {
            "neighbors": [neighbor.to_json() for neighbor in self.neighbors],
            "unadapted": {"label": self.unadapted_label, "probability": self.unadapted_probability},
        }


def check_explained(config: pb.ModelConfig) -> None:
    """Checks that a model can explain its answers.

    Raises:
        ImageModelError: Outputs are missing; the message has the command that exports a model with them.
    """
    outputs = {output.name for output in config.output}
    if not outputs.issuperset(EXPLANATION):
        raise ImageModelError(
            f"model '{config.name}' does not tell its neighbors; leave out --explain, or export it again with "
            "mnexport --explain K"
        )


def stated_finding(config: pb.ModelConfig) -> str | None:
    """Returns what the exporter found about the explanations of a model, such as that they mean little; or None."""
    return config.parameters["mn.finding"].string_value or None if "mn.finding" in config.parameters else None


def read_explanations(
    outputs: Mapping[str, NDArray[Any]], labels: Sequence[str], count: int, images: TrainingImages | None = None
) -> list[Explanation]:
    """Reads one explanation for each image of a call.

    Args:
        outputs: Outputs of ``EXPLANATION``, with a batch axis.
        labels: Name of each class.
        count: Images of the call.
        images: Training images of every entry, if they are known.

    Raises:
        ImageModelError: An output has another type, shape or range.
        TrainingImagesError: The training images belong to another model.
    """
    _check(outputs, len(labels), count)
    explanations = []
    for entries, weights, classes, unadapted in zip(*(outputs[name] for name in EXPLANATION), strict=True):
        neighbors = tuple(
            Neighbor(
                entry=int(entry),
                label=labels[int(label)],
                weight=float(weight),
                images=() if images is None else images.of_entry(int(entry), int(label), labels),
            )
            for entry, weight, label in zip(entries, weights, classes, strict=True)
        )
        best = int(np.argmax(unadapted))
        explanations.append(
            Explanation(neighbors=neighbors, unadapted_label=labels[best], unadapted_probability=float(unadapted[best]))
        )
    return explanations


def _check(outputs: Mapping[str, NDArray[Any]], classes: int, count: int) -> None:
    """Checks types, shapes and ranges of the outputs of an explanation.

    Raises:
        ImageModelError: An output is invalid.
    """
    indices, weights, labels, unadapted = (outputs[name] for name in EXPLANATION)
    integers, floats = (np.integer,), (np.floating,)
    for name, array, kinds, shape in (
        (_INDICES, indices, integers, indices.shape),
        (_WEIGHTS, weights, floats, indices.shape),
        (_LABELS, labels, integers, indices.shape),
        (UNADAPTED, unadapted, floats, (count, classes)),
    ):
        if not isinstance(array.dtype.type(), kinds) or array.shape != shape or array.ndim != 2 or len(array) != count:
            numbers = "whole numbers" if kinds is integers else "float16, float32 or float64"
            raise ImageModelError(
                f"the model's output '{name}' is {array.dtype} {list(array.shape)} for {count} image(s) and {classes} "
                f"classes; an explanation needs {numbers} of shape "
                f"{[count, classes] if name == UNADAPTED else [count, 'neighbors']}"
            )
    for name, array, limit in ((_WEIGHTS, weights, 1.0), (UNADAPTED, unadapted, 1.0), (_LABELS, labels, classes - 1)):
        if not ((array >= 0) & (array <= limit + _ROUNDING)).all():
            raise ImageModelError(
                f"the model's output '{name}' has values outside of 0 to {limit:g}, or that are not finite; check the "
                "model and the images"
            )

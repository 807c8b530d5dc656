"""Which learned neighbors shaped an answer, and what it would have been without them.

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
_UNADAPTED = "unadapted_probabilities"
_ROUNDING = 1e-3
EXPLANATION = (_INDICES, _WEIGHTS, _LABELS, _UNADAPTED)
"""Outputs of a model that can explain its answers."""


@dataclass(frozen=True, kw_only=True)
class Neighbor:
    """An entry of the model's dictionary.

    Attributes:
        entry: Its number.
        label: The class it stands for.
        weight: Its share of the attention, 0 to 1.
        images: The training images nearest to it, the nearest first; empty where they are not known.
    """

    entry: int
    label: str
    weight: float
    images: tuple[TrainingImage, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        plain = {"entry": self.entry, "label": self.label, "weight": self.weight}
        images = [{"position": image.position, "label": image.label} for image in self.images]
        return plain | {"training_images": images} if images else plain


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Why a model answered as it did.

    Attributes:
        neighbors: The most important first.
        unadapted_label: The class without adaptation.
        unadapted_probability: Its probability.
    """

    neighbors: tuple[Neighbor, ...]
    unadapted_label: str
    unadapted_probability: float

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "neighbors": [one.to_json() for one in self.neighbors],
            "unadapted": {"label": self.unadapted_label, "probability": self.unadapted_probability},
        }


def check_explained(config: pb.ModelConfig) -> None:
    """Whether a model can explain its answers.

    Raises:
        ImageModelError: It cannot; the message says how to export one that can.
    """
    given = {output.name for output in config.output}
    if not given.issuperset(EXPLANATION):
        raise ImageModelError(
            f"model '{config.name}' does not tell its neighbors; leave out --explain, or export it again with "
            "mnexport --explain K"
        )


def read_explanations(
    outputs: Mapping[str, NDArray[Any]], labels: Sequence[str], count: int, images: TrainingImages | None = None
) -> list[Explanation]:
    """One explanation for each image of a call.

    Args:
        outputs: Those of ``EXPLANATION``, with a batch axis.
        labels: Name of each class.
        count: Images of the call.
        images: Training images of every entry, where they are known.

    Raises:
        ImageModelError: An output is not what it has to be.
        TrainingImagesError: The training images are of another model.
    """
    _check(outputs, len(labels), count)
    found = []
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
        found.append(
            Explanation(neighbors=neighbors, unadapted_label=labels[best], unadapted_probability=float(unadapted[best]))
        )
    return found


def _check(outputs: Mapping[str, NDArray[Any]], classes: int, count: int) -> None:
    """Whether an explanation can be read from these outputs: a number made of anything else would be an invention.

    Raises:
        ImageModelError: It cannot.
    """
    indices, weights, labels, unadapted = (outputs[name] for name in EXPLANATION)
    whole, real = (np.integer,), (np.floating,)
    for name, array, kinds, shape in (
        (_INDICES, indices, whole, indices.shape),
        (_WEIGHTS, weights, real, indices.shape),
        (_LABELS, labels, whole, indices.shape),
        (_UNADAPTED, unadapted, real, (count, classes)),
    ):
        if not isinstance(array.dtype.type(), kinds) or array.shape != shape or array.ndim != 2 or len(array) != count:
            what = "whole numbers" if kinds is whole else "float16, float32 or float64"
            raise ImageModelError(
                f"the model's output '{name}' is {array.dtype} {list(array.shape)} for {count} image(s) and {classes} "
                f"classes; an explanation needs {what} of shape "
                f"{[count, classes] if name == _UNADAPTED else [count, 'neighbors']}"
            )
    for name, array, most in ((_WEIGHTS, weights, 1.0), (_UNADAPTED, unadapted, 1.0), (_LABELS, labels, classes - 1)):
        if not ((array >= 0) & (array <= most + _ROUNDING)).all():
            raise ImageModelError(
                f"the model's output '{name}' has values outside of 0 to {most:g}, or that are not finite; check the "
                "model and the images"
            )

"""Which learned neighbours shaped an answer, and what it would have been without them.

Shapes: B images in a batch, C classes, K neighbours, the most important first.
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

__all__ = ["EXPLANATION", "Explanation", "Neighbour", "check_explained", "read_explanations"]

_INDICES, _WEIGHTS, _LABELS = "neighbor_indices", "neighbor_weights", "neighbor_labels"
_UNADAPTED = "unadapted_probabilities"
EXPLANATION = (_INDICES, _WEIGHTS, _LABELS, _UNADAPTED)
"""Outputs of a model that can explain its answers."""


@dataclass(frozen=True, kw_only=True)
class Neighbour:
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
        neighbours: The most important first.
        unadapted_label: The class without adaptation.
        unadapted_probability: Its probability.
    """

    neighbours: tuple[Neighbour, ...]
    unadapted_label: str
    unadapted_probability: float

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "neighbors": [one.to_json() for one in self.neighbours],
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
            f"model '{config.name}' does not tell its neighbours; leave out --explain, or export it again with "
            "mnexport --explain K"
        )


def read_explanations(
    outputs: Mapping[str, NDArray[Any]], labels: Sequence[str], images: TrainingImages | None = None
) -> list[Explanation]:
    """One explanation for each image of a call.

    Args:
        outputs: Those of ``EXPLANATION``, with a batch axis.
        labels: Name of each class.
        images: Training images of every entry, where they are known.

    Raises:
        TrainingImagesError: They are of another model.
    """
    found = []
    for entries, weights, classes, unadapted in zip(*(outputs[name] for name in EXPLANATION), strict=True):
        neighbours = tuple(
            Neighbour(
                entry=int(entry),
                label=labels[int(label)],
                weight=float(weight),
                images=() if images is None else images.of_entry(int(entry), int(label), labels),
            )
            for entry, weight, label in zip(entries, weights, classes, strict=True)
        )
        best = int(np.argmax(unadapted))
        found.append(
            Explanation(
                neighbours=neighbours, unadapted_label=labels[best], unadapted_probability=float(unadapted[best])
            )
        )
    return found

"""Labelled probabilities from the outputs of a model.

Shapes: B images in a batch, K classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnserve.errors import ImageModelError
from mnserve.predicting.explanations import EXPLANATION, Explanation, check_explained, read_explanations, stated_finding
from mnserve.predicting.training_images import TrainingImages
from mnserve.protocol import model_config_pb2 as pb
from mnserve.text.json_text import parse_json

_PROBABILITIES = "probabilities"
_FLOATS = (pb.TYPE_FP16, pb.TYPE_FP32, pb.TYPE_FP64)


@dataclass(frozen=True, kw_only=True)
class Label:
    """A class with its probability."""

    label: str
    """Name of the class."""
    probability: float
    """Probability of the class, 0 to 1."""


@dataclass(frozen=True, kw_only=True)
class LabelledPrediction:
    """Prediction for one file."""

    file: str
    """Name of the file as it was given or found."""
    top: tuple[Label, ...]
    """Most probable classes, the best first."""
    explanation: Explanation | None = None
    """Neighbors that shaped the answer; None where no explanation was requested."""

    def to_json(self) -> dict[str, Any]:
        """Returns plain JSON values: file, label, probability, all of ``top``, and any explanation."""
        plain = {
            "file": self.file,
            "label": self.top[0].label,
            "probability": self.top[0].probability,
            "top": [{"label": label.label, "probability": label.probability} for label in self.top],
        }
        return plain if self.explanation is None else plain | {"explanation": self.explanation.to_json()}


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassScores:
    """Scores of every class, for each image of a call."""

    names: Sequence[str]
    """Names of the K classes."""
    scores: NDArray[np.float64]
    """Scores [B, K] as the model answered."""
    probabilities: NDArray[np.float64]
    """Probabilities [B, K]: the scores, or their softmax."""
    explanations: Sequence[Explanation | None]
    """Neighbors that shaped each answer; None where no explanation was requested."""


class AnswerReader:
    """Reads the class scores of one model.

    The scores are the output ``probabilities``, or else the first float output. Rows of that output that are no
    distributions go through a softmax.

    Args:
        config: Configuration of the model.
        labels: Class names for a model without the parameter ``mn.labels``; without both, classes are numbered.
        explain: Read the neighbors that shaped each answer, too.
        images: Training images of the neighbors, if they are known.

    Raises:
        ImageModelError: No output can hold class scores, the parameter ``mn.labels`` is not a list of names, or the
            model lacks the outputs of an explanation.
    """

    def __init__(
        self,
        config: pb.ModelConfig,
        labels: Sequence[str] = (),
        *,
        explain: bool = False,
        images: TrainingImages | None = None,
    ) -> None:
        if explain:
            check_explained(config)
        self._explain = explain
        self._images = images
        self.model = config.name
        self.output = _score_output(config)
        self.labels = _stated_labels(config) or tuple(labels)
        finding = stated_finding(config) if explain else None
        self._notes: dict[str, None] = {} if finding is None else {finding: None}

    @property
    def explains(self) -> bool:
        """True if the neighbors that shaped each answer are read."""
        return self._explain

    @property
    def outputs(self) -> list[str]:
        """Names of the outputs to request."""
        return [self.output, *(EXPLANATION if self._explain else ())]

    @property
    def notes(self) -> tuple[str, ...]:
        """Assumptions made for the answers, as sentences for the user, each once."""
        return tuple(self._notes)

    def read(self, outputs: Mapping[str, NDArray[Any]], files: Sequence[str], top: int) -> list[LabelledPrediction]:
        """Reads one prediction for each of ``files`` from the output [B, K], or [K] for one image, of a call.

        Raises:
            ImageModelError: The output has another shape, or a value that is not finite, which determines no class.
            TrainingImagesError: The training images belong to another model.
        """
        found = self.read_classes(outputs, len(files))
        # The stable sort puts the lower class number first among equal probabilities.
        order = np.argsort(-found.scores, axis=1, kind="stable")[:, :top]
        return [
            LabelledPrediction(
                file=file,
                top=tuple(Label(label=found.names[k], probability=float(row[k])) for k in best),
                explanation=explanation,
            )
            for file, row, best, explanation in zip(files, found.probabilities, order, found.explanations, strict=True)
        ]

    def read_classes(self, outputs: Mapping[str, NDArray[Any]], count: int) -> ClassScores:
        """Reads scores of all classes from the output [B, K] of a call with ``count`` images, or [K] for one.

        Raises:
            ImageModelError, TrainingImagesError: As :meth:`read`.
        """
        scores = np.asarray(outputs[self.output], np.float64)
        scores = scores.reshape(1, -1) if count == 1 and scores.ndim != 2 else scores
        if scores.ndim != 2 or len(scores) != count or scores.shape[1] == 0:
            raise ImageModelError(
                f"model '{self.model}' answered {count} image(s) with '{self.output}' of shape "
                f"{list(outputs[self.output].shape)}; scores for classes have the shape [{count}, "
                "classes]; call it through a client instead"
            )
        if not np.isfinite(scores).all():
            raise ImageModelError(
                f"model '{self.model}' answered with {int((~np.isfinite(scores)).sum())} values in "
                f"'{self.output}' that are NaN or infinite; check the model and the images"
            )
        names = self._names(scores.shape[1])
        probabilities = scores
        if self.output != _PROBABILITIES and not _are_distributions(scores):
            self._notes[
                f"model '{self.model}' has no output '{_PROBABILITIES}'; shown is the softmax of '{self.output}'"
            ] = None
            probabilities = _softmax(scores)
        explanations: Sequence[Explanation | None] = [None] * count
        if self._explain:
            explanations = read_explanations(outputs, names, count, self._images)
        return ClassScores(names=names, scores=scores, probabilities=probabilities, explanations=explanations)

    def _names(self, classes: int) -> Sequence[str]:
        if len(self.labels) == classes:
            return self.labels
        if self.labels:
            self._notes[
                f"model '{self.model}' names {len(self.labels)} labels for {classes} classes; classes are numbered"
            ] = None
        else:
            self._notes[f"model '{self.model}' names no labels; classes are numbered"] = None
        return [str(k) for k in range(classes)]


def _score_output(config: pb.ModelConfig) -> str:
    floats = [output.name for output in config.output if output.data_type in _FLOATS]
    if _PROBABILITIES in floats:
        return _PROBABILITIES
    if not floats:
        outputs = ", ".join(
            f"{output.name} {pb.DataType.Name(output.data_type).removeprefix('TYPE_')} {list(output.dims)}"
            for output in config.output
        )
        raise ImageModelError(
            f"model '{config.name}' gives {outputs or 'no output'}; predict reads class scores from a float "
            "output; call it through a client instead"
        )
    return floats[0]


def _stated_labels(config: pb.ModelConfig) -> tuple[str, ...]:
    if "mn.labels" not in config.parameters:
        return ()
    text = config.parameters["mn.labels"].string_value
    try:
        labels = parse_json(text)
    except ValueError:
        labels = None
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise ImageModelError(
            f"model '{config.name}' has the parameter mn.labels = {text[:80]!r}, which is not a JSON list of "
            "names; correct its config.pbtxt"
        )
    return tuple(labels)


def _are_distributions(scores: NDArray[np.float64]) -> bool:
    return bool((scores >= 0.0).all() and np.allclose(scores.sum(axis=1), 1.0, atol=1e-3))


def _softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    result: NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True)
    return result

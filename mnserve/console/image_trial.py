"""Predictions of images that the page sends: classes with and without adaptation, and the neighbors behind them.

Shapes: B images in a batch, C classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mnserve.client.images import Pixels, decode_image
from mnserve.console.called_model import ConsoleModel
from mnserve.console.image_room import check_room
from mnserve.console.trial_input import ImageFile
from mnserve.errors import InvalidRequestError, MnServeError, TrainingImagesError
from mnserve.http.payloads.sent_images import base64_bytes
from mnserve.predicting.answers import AnswerReader, ClassScores
from mnserve.predicting.explanations import UNADAPTED, Explanation, Neighbor
from mnserve.predicting.image_input import ImageInput
from mnserve.predicting.pictures import data_uri
from mnserve.predicting.training_images import TrainingImages

_TOP: Final = 5
"""Classes of an answer that are shown."""


class ImageTrial:
    """Predicts images with one model.

    Args:
        model: The model.
        taken: Its input.
        explain: Tell the neighbors, and the answer without adaptation.
        find_images: Returns the training images of its neighbors, if there are any.
        most_bytes: Largest request; each image is one.
    """

    def __init__(
        self,
        model: ConsoleModel,
        taken: ImageInput,
        *,
        explain: bool,
        find_images: Callable[[], TrainingImages | None],
        most_bytes: int,
    ) -> None:
        self._model, self._taken, self._most_bytes = model, taken, most_bytes
        self._notes: list[str] = []
        images = self._found(find_images) if explain else None
        self._reader = AnswerReader(model.config, model.labels, explain=explain, images=images)

    @property
    def notes(self) -> tuple[str, ...]:
        """Assumptions and shortcomings, as sentences."""
        return (*self._taken.assumed, *self._reader.notes, *self._notes)

    def predict(self, files: Sequence[ImageFile]) -> list[dict[str, Any]]:
        """Returns one result for each image, in values of JSON; an image that cannot be used has an ``error``.

        Raises:
            MessageTooLargeError: An image makes a larger tensor than a request may carry; none is decoded.
            ClientLeftError, StoppingError: See :class:`mnserve.console.waiting.Waiting`.
        """
        contents = [_content(file) for file in files]
        for file, content in zip(files, contents, strict=True):
            if isinstance(content, bytes):
                check_room(self._taken, content, file.name, self._most_bytes)
        results = []
        for file, content in zip(files, contents, strict=True):
            self._model.waiting.check()
            if isinstance(content, bytes):
                results.append({"name": file.name} | self._result(file.name, content))
            else:
                results.append({"name": file.name, "error": str(content)})
        return results

    def _found(self, find_images: Callable[[], TrainingImages | None]) -> TrainingImages | None:
        """Finds training images; where they cannot be used, the neighbors are told without them."""
        try:
            images = find_images()
            if images is not None:
                images.check_size(self._taken.size)
        except MnServeError as error:
            self._notes.append(str(error))
            return None
        return images

    def _result(self, name: str, content: bytes) -> dict[str, Any]:
        try:
            pixels = decode_image(content, name, self._taken.size, fit=self._taken.fit or "stretch")
            outputs = self._model.infer({self._taken.name: self._taken.encode([pixels])}, self._reader.outputs)
            scores = self._scores(outputs)
        except MnServeError as error:
            return {"error": str(error)}
        return _answer(scores, outputs.get(UNADAPTED), pixels)

    def _scores(self, outputs: dict[str, NDArray[Any]]) -> ClassScores:
        try:
            return self._reader.read_classes(outputs, 1)
        except TrainingImagesError as error:
            self._notes.append(str(error))
            self._reader = AnswerReader(self._model.config, self._model.labels, explain=True)
            return self._reader.read_classes(outputs, 1)


def _content(file: ImageFile) -> bytes | InvalidRequestError:
    try:
        return base64_bytes(file.data, f"the content of {file.name}")
    except InvalidRequestError as error:
        return error


def _answer(scores: ClassScores, unadapted: NDArray[Any] | None, pixels: Pixels) -> dict[str, Any]:
    probabilities = scores.probabilities[0]
    before = None if unadapted is None else np.asarray(unadapted, np.float64).reshape(-1)
    shown = [int(k) for k in np.argsort(-scores.scores[0], kind="stable")[:_TOP]]
    if before is not None and (best := int(before.argmax())) not in shown:
        shown.append(best)
    explanation = scores.explanations[0]
    return {
        "picture": data_uri(pixels),
        "classes": [
            {
                "label": scores.names[k],
                "probability": float(probabilities[k]),
                "unadapted": None if before is None else float(before[k]),
            }
            for k in shown
        ],
        "explanation": None if explanation is None else _explanation(explanation),
    }


def _explanation(explanation: Explanation) -> dict[str, Any]:
    return {
        "label": explanation.unadapted_label,
        "probability": explanation.unadapted_probability,
        "neighbors": [_neighbor(neighbor) for neighbor in explanation.neighbors],
    }


def _neighbor(neighbor: Neighbor) -> dict[str, Any]:
    images = [
        {"position": image.position, "label": image.label, "picture": data_uri(image.pixels)}
        for image in neighbor.images
    ]
    return {"entry": neighbor.entry, "label": neighbor.label, "weight": neighbor.weight, "images": images}

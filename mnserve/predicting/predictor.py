"""Prediction of image files in batches: every file ends as a prediction or as a failure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mnserve.client.images import Pixels, find_images, read_image
from mnserve.errors import AnswerTimeoutError, ImageError, MnServeError, ServerUnreachableError, TrainingImagesError
from mnserve.predicting.answers import AnswerReader, LabelledPrediction
from mnserve.predicting.image_input import ImageInput
from mnserve.predicting.models import CalledModel
from mnserve.predicting.training_images import TrainingImages

MAX_CALL_BYTES: Final = 16 * 1024 * 1024
"""Most bytes of input in a call: well below the message limit of a server, and larger calls are no faster."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Reason of a missing prediction."""

    reason: str
    """Reason as one sentence that names the file."""
    files: int = 1
    """Files that are not predicted for this reason."""


FileOutcome = LabelledPrediction | Failure


class Predictor:
    """Predicts image files with one model.

    Args:
        model: The model, on a server or in this process.
        top: Classes to report for each image.
        resize: Scale images of another size instead of refusing them, where the model states no rule for them.
        explain: Add the neighbors that shaped each answer.
        images: Training images of the neighbors, if they are known.
        show: Called with every prediction and its pixels.
        max_call_bytes: Most bytes of input in a call.

    Raises:
        ImageModelError: The model does not turn one image into class scores, or has no outputs for its neighbors.
        TrainingImagesError: The training images belong to another model.
    """

    def __init__(
        self,
        model: CalledModel,
        *,
        top: int,
        resize: bool,
        explain: bool = False,
        images: TrainingImages | None = None,
        show: Callable[[LabelledPrediction, Pixels], None] = lambda prediction, pixels: None,
        max_call_bytes: int = MAX_CALL_BYTES,
    ) -> None:
        self._model = model
        self._input = ImageInput.from_config(model.config)
        self._answers = AnswerReader(model.config, model.labels, explain=explain, images=images)
        if images is not None:
            images.check_size(self._input.size)
        self._show = show
        self._top = top
        self._fit = self._input.fit or ("stretch" if resize else None)
        self._max_call_bytes = max_call_bytes

    @property
    def notes(self) -> tuple[str, ...]:
        """Assumptions about the model, as sentences for the user; complete once all files are done."""
        return self._input.assumed + self._answers.notes

    def find(self, names: Sequence[str]) -> tuple[list[Path], list[Failure]]:
        """Finds the files that ``names`` (files and folders) stand for, and a failure for each name without a file."""
        results = list(find_images(names))
        paths = [path for path in results if isinstance(path, Path)]
        return paths, [Failure(reason=str(error)) for error in results if isinstance(error, ImageError)]

    def predict(self, paths: Sequence[Path]) -> Iterator[FileOutcome]:
        """Yields one outcome for each file; predictions come in the order of the files.

        Files are read when their batch is due, so memory does not grow with their number. When the server becomes
        unreachable, the remaining files are reported as one failure.

        Raises:
            TrainingImagesError: The training images belong to another model.
        """
        files: list[str] = []
        images: list[Pixels] = []
        for index, path in enumerate(paths):
            try:
                image = read_image(path, self._input.size, fit=self._fit)
            except ImageError as error:
                yield Failure(reason=str(error))
                continue
            if images and not self._input.has_room(images, image, self._max_call_bytes):
                try:
                    yield from self._call(files, images)
                except ServerUnreachableError as error:
                    yield _not_tried(files[0], len(files) + len(paths) - index, error)
                    return
                files, images = [], []
            files.append(str(path))
            images.append(image)
        if images:
            try:
                yield from self._call(files, images)
            except ServerUnreachableError as error:
                yield _not_tried(files[0], len(files), error)

    def _call(self, files: Sequence[str], images: Sequence[Pixels]) -> list[FileOutcome]:
        try:
            feeds = {self._input.name: self._input.encode(images)}
            outputs = self._model.infer(feeds, self._answers.outputs)
            predictions = self._answers.read(outputs, files, self._top)
            for prediction, image in zip(predictions, images, strict=True):
                self._show(prediction, image)
            return [*predictions]
        except (ServerUnreachableError, TrainingImagesError):  # faults of the whole call, not of one of its images
            raise
        except MnServeError as error:
            if len(files) == 1 or isinstance(error, AnswerTimeoutError):
                return [Failure(reason=f"{file}: {error}") for file in files]
            # One image may be at fault, or the batch too large: each image gets a call of its own.
            return [
                outcome for file, image in zip(files, images, strict=True) for outcome in self._call([file], [image])
            ]


def _not_tried(first: str, count: int, error: MnServeError) -> Failure:
    files = f"{first} and the {count - 1} file(s) after it" if count > 1 else first
    return Failure(reason=f"{files}: not predicted, as {error}", files=count)

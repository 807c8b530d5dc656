"""Image files through a model in batches: every file ends as a prediction or as a failure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mnserve.client.images import Pixels, find_images, read_image
from mnserve.errors import AnswerTimeoutError, ImageError, MnServeError, ServerUnreachableError, TrainingImagesError
from mnserve.predicting.answers import AnswerReader, LabelledPrediction
from mnserve.predicting.image_input import ImageInput
from mnserve.predicting.models import CalledModel
from mnserve.predicting.training_images import TrainingImages

_CALL_BYTES = 16 * 1024 * 1024
"""Most bytes of input in a call: well under the message limit of a server, and no gain in speed above it."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why there is no prediction."""

    reason: str
    """One sentence that names the file."""
    files: int = 1
    """Files that are not predicted for this reason."""


FileOutcome = LabelledPrediction | Failure


class Predictor:
    """Predicts image files with one model.

    Args:
        model: the model, on a server or in this process.
        top: classes to report for each image.
        resize: scale images of another size instead of refusing them.
        explain: tell which neighbors shaped each answer.
        images: training images of the neighbors, where they are known.
        show: called with every prediction and the pixels that it is about.

    Raises:
        ImageModelError: the model does not turn one image into class scores, or does not tell its neighbors.
        TrainingImagesError: the training images are of another model.
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
    ) -> None:
        self._model = model
        self._input = ImageInput.from_config(model.config)
        self._answers = AnswerReader(model.config, model.labels, explain=explain, images=images)
        if images is not None:
            images.check_size(self._input.size)
        self._show = show
        self._top = top
        self._resize = resize

    @property
    def notes(self) -> tuple[str, ...]:
        """What had to be assumed, as sentences for the user; complete when all files are done."""
        return self._input.assumed + self._answers.notes

    def find(self, names: Sequence[str]) -> tuple[list[Path], list[Failure]]:
        """The files that ``names`` (files and folders) stand for, and the names that stand for none."""
        found = list(find_images(names))
        paths = [one for one in found if isinstance(one, Path)]
        return paths, [Failure(reason=str(one)) for one in found if isinstance(one, ImageError)]

    def predict(self, paths: Sequence[Path]) -> Iterator[FileOutcome]:
        """One outcome for each file; predictions come in the order of the files.

        Files are read when their batch is due, so that memory does not grow with their number. When the
        server goes away, the files that were not tried are reported as one failure.

        Raises:
            TrainingImagesError: the training images are of another model.
        """
        files: list[str] = []
        images: list[Pixels] = []
        for index, path in enumerate(paths):
            try:
                image = read_image(path, self._input.size, resize=self._resize)
            except ImageError as error:
                yield Failure(reason=str(error))
                continue
            if images and (image.shape != images[0].shape or not self._has_room(images)):
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

    def _has_room(self, images: Sequence[Pixels]) -> bool:
        if len(images) >= self._input.max_batch:
            return False
        bytes_per_image = images[0].size * self._input.dtype.itemsize
        return (len(images) + 1) * bytes_per_image <= _CALL_BYTES

    def _call(self, files: Sequence[str], images: Sequence[Pixels]) -> list[FileOutcome]:
        try:
            feeds = {self._input.name: self._input.encode(images)}
            outputs = self._model.infer(feeds, self._answers.outputs)
            predictions = self._answers.read(outputs, files, self._top)
            for prediction, image in zip(predictions, images, strict=True):
                self._show(prediction, image)
            return [*predictions]
        except (ServerUnreachableError, TrainingImagesError):  # of the whole call, not of one of its images
            raise
        except MnServeError as error:
            if len(files) == 1 or isinstance(error, AnswerTimeoutError):
                return [Failure(reason=f"{file}: {error}") for file in files]
            # One image may be at fault for all of them, or the batch too large: each gets a call of its own.
            return [
                outcome for file, image in zip(files, images, strict=True) for outcome in self._call([file], [image])
            ]


def _not_tried(first: str, count: int, error: MnServeError) -> Failure:
    which = f"{first} and the {count - 1} file(s) after it" if count > 1 else first
    return Failure(reason=f"{which}: not predicted, as {error}", files=count)

"""Model of a repository in this process, for Python programs: it predicts images or rows as ``mnserve predict`` does.

Shapes: B images or rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np

from mnserve.client.images import Pixels
from mnserve.engines.base import EngineOptions
from mnserve.errors import SettingsError
from mnserve.models.opened_model import OpenedModel
from mnserve.predicting.answers import AnswerReader, ClassScores
from mnserve.predicting.image_input import ImageInput
from mnserve.predicting.predictions import ClassPredictions, ValuePredictions
from mnserve.predicting.predictor import MAX_CALL_BYTES
from mnserve.predicting.python_inputs import read_pixels
from mnserve.predicting.python_rows import row_batches
from mnserve.predicting.row_answers import RowValueAnswer, RowValueAnswers, estimates_values
from mnserve.predicting.training_images_file import read_training_images
from mnserve.repository.row_layout import TableLayout, row_layout


class LocalModel(OpenedModel):
    """The default version of a model, loaded without a server; a context manager that frees it.

    Args:
        folder: Folder of the model, ``REPOSITORY/NAME``.
        options: Options of its engine.

    Raises:
        RepositoryError: The model is missing or damaged, or its configuration does not fit.
        EngineLoadError: The engine cannot load the model.
    """

    def __init__(self, folder: str | Path, options: EngineOptions | None = None) -> None:
        path = Path(os.path.abspath(folder))
        super().__init__(path.parent, path.name, options)

    @classmethod
    def open(cls, root: Path, name: str, options: EngineOptions | None = None) -> Self:
        """Loads model ``name`` of the repository ``root``."""
        return cls(Path(root) / name, options)

    def predict(
        self, inputs: Any, *, explain: bool = False, resize: bool = False
    ) -> ClassPredictions | ValuePredictions:
        """Predicts images, or rows of a table, in batches of the size that the model takes.

        Args:
            inputs: For a model of images an array uint8 [B, C, H, W] or [B, H, W, C], or a sequence of paths, Pillow
                images and arrays of one image. For a model of rows an array of numbers [B, columns], or a sequence of
                mappings from column to value.
            explain: Add the neighbors that shaped each answer.
            resize: Scale images of another size where the model states no rule for them.

        Returns:
            Classes with their probabilities, or values where the model estimates some.

        Raises:
            ImageError, RowError: An image or a row cannot be used.
            ImageModelError, RowModelError: The model takes neither, or answers otherwise than it says.
            EngineRunError: The model cannot run on these inputs.
        """
        layout = row_layout(self.config)
        if layout is None:
            return self._predict_images(inputs, explain=explain, resize=resize)
        if resize:
            raise SettingsError(f"resize is about images, and model '{self.config.name}' takes rows; leave it out")
        return self._predict_rows(inputs, layout, explain=explain)

    def _predict_images(self, images: Any, *, explain: bool, resize: bool) -> ClassPredictions:
        taken = ImageInput.from_config(self.config)
        file = self.training_images if explain else None
        training = None if file is None else read_training_images(file)
        if training is not None:
            training.check_size(taken.size)
        reader = AnswerReader(self.config, self.labels, explain=explain, images=training)
        pixels = read_pixels(images, taken.size, taken.fit or ("stretch" if resize else None))
        scores = [
            reader.read_classes(self.infer({taken.name: taken.encode(batch)}, reader.outputs), len(batch))
            for batch in _batches(pixels, taken)
        ]
        return _joined(scores, taken.assumed + reader.notes)

    def _predict_rows(self, rows: Any, layout: TableLayout, *, explain: bool) -> ClassPredictions | ValuePredictions:
        batches, notes = row_batches(rows, layout, self.config.max_batch_size or 1)
        if not estimates_values(self.config):
            reader = AnswerReader(self.config, self.labels, explain=explain)
            scores = [reader.read_classes(self.infer(batch.feeds, reader.outputs), batch.rows) for batch in batches]
            return _joined(scores, reader.notes + notes)
        values = RowValueAnswers(self.config, layout, explain=explain)
        answers: list[RowValueAnswer] = []
        for batch in batches:
            answers += values.read(self.infer(batch.feeds, values.outputs), batch.rows)
        return ValuePredictions(
            values=np.array([answer.values for answer in answers]),
            targets=layout.targets,
            explanations=tuple(answers) if explain else (),
            notes=values.notes + notes,
        )


def _batches(images: Iterator[Pixels], taken: ImageInput) -> Iterator[list[Pixels]]:
    """Gathers images of one size, as many as a call may carry."""
    batch: list[Pixels] = []
    for image in images:
        if batch and not taken.has_room(batch, image, MAX_CALL_BYTES):
            yield batch
            batch = []
        batch.append(image)
    yield batch


def _joined(scores: list[ClassScores], notes: tuple[str, ...]) -> ClassPredictions:
    names = tuple(scores[0].names)
    best = [int(k) for found in scores for k in found.scores.argmax(axis=1)]
    return ClassPredictions(
        labels=tuple(names[k] for k in best),
        probabilities=np.concatenate([found.probabilities for found in scores]),
        classes=names,
        explanations=tuple(item for found in scores for item in found.explanations if item is not None),
        notes=notes,
    )

"""Kinds of models: those that take an image, those that take rows of a table, and those that take any tensors."""

from __future__ import annotations

from mnserve.errors import MnServeError
from mnserve.predicting.answers import AnswerReader
from mnserve.predicting.image_input import ImageInput
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.repository.row_layout import TableLayout, row_layout


def image_input(config: ModelConfig) -> ImageInput | None:
    """Reads the image input of a model that turns one image into class scores; None for any other model."""
    try:
        AnswerReader(config)
        return ImageInput.from_config(config)
    except MnServeError:
        return None


def table_layout(config: ModelConfig) -> TableLayout | None:
    """Reads the columns of a model of rows; None for any other model."""
    try:
        return row_layout(config)
    except MnServeError:
        return None

"""Kinds of models: those that take an image, those that take rows of a table, and those that take any tensors."""

from __future__ import annotations

from mnserve.errors import MnServeError
from mnserve.predicting.answers import AnswerReader
from mnserve.predicting.image_input import ImageInput
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.repository.row_layout import TableLayout, row_layout


def image_input(config: ModelConfig) -> ImageInput | None:
    """Reads the image input of a model that turns one image into class scores; None for any other model.

    Scores have one dimension beside the batch; others of size one do not count, such as those that a pooling leaves.
    """
    try:
        output = AnswerReader(config).output
        taken = ImageInput.from_config(config)
    except MnServeError:
        return None
    dims = next(list(tensor.dims) for tensor in config.output if tensor.name == output)
    if not config.max_batch_size and not taken.alone:
        dims = dims[1:]  # a batch dimension of its own
    return taken if dims and sum(size != 1 for size in dims) <= 1 else None


def table_layout(config: ModelConfig) -> TableLayout | None:
    """Reads the columns of a model of rows; None for any other model."""
    try:
        return row_layout(config)
    except MnServeError:
        return None

"""Random input of the dtypes and shapes of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mnserve.codec.datatypes import BY_CONFIG_TYPE
from mnserve.errors import BenchError
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.repository.row_layout import row_layout

Array = np.ndarray[Any, Any]
Rows = Mapping[str, tuple[str, tuple[int, ...]]]
"""Input name -> protocol type and dimensions of one row, without the batch."""

_SMALL = 2
"""Limit of integers other than UINT8: they tend to be indices, and any table has rows 0 and 1."""


def input_rows(config: ModelConfig, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Reads protocol type and dimensions (without the batch) of each input, with open dimensions filled in.

    Optional inputs are left out: the model has a default for them.

    Args:
        config: Complete configuration of the model.
        shapes: Input name -> dimensions without the batch, for inputs with open dimensions.

    Raises:
        BenchError: A dimension stays open, a given shape does not fit, or an input holds strings that are no known
            categories.
    """
    words = _categories(config)
    rows: dict[str, tuple[str, tuple[int, ...]]] = {}
    for tensor in config.input:
        if tensor.optional:
            continue
        datatype = BY_CONFIG_TYPE[tensor.data_type].name
        dims = tuple(tensor.dims)
        given = shapes.get(tensor.name)
        if datatype == "BYTES" and tensor.name not in words:
            raise BenchError(
                f"input '{tensor.name}' of model '{config.name}' holds strings (BYTES), and random strings mean "
                "nothing to a model; only numbers can be timed here, and categories that its parameter mn.input lists"
            )
        if given is not None:
            fits = len(given) == len(dims) and all(dim in (-1, size) for dim, size in zip(dims, given, strict=True))
            if not fits:
                raise BenchError(
                    f"--shape gives input '{tensor.name}' the dimensions {list(given)}, model '{config.name}' "
                    f"takes {list(dims)} (-1 is any size); give one size for each dimension, without the "
                    "batch"
                )
            dims = given
        elif any(size < 1 for size in dims):
            example = ",".join(str(size) if size > 0 else "SIZE" for size in dims)
            raise BenchError(
                f"input '{tensor.name}' of model '{config.name}' has the dimensions {list(dims)}, and -1 is any "
                f"size; choose sizes with --shape {tensor.name}:{example}"
            )
        rows[tensor.name] = (datatype, dims)
    return rows


def check_shapes_used(shapes: Mapping[str, tuple[int, ...]], rows: Sequence[Rows]) -> None:
    """Checks that every given shape belongs to an input.

    Raises:
        BenchError: No model has an input of that name.
    """
    inputs = {name for row in rows for name in row}
    for name in shapes:
        if name not in inputs:
            raise BenchError(
                f"--shape names the input '{name}', the inputs are {', '.join(sorted(inputs))}; correct the name"
            )


def random_feeds(config: ModelConfig, rows: Rows, batch: int, seed: int) -> dict[str, Array]:
    """Draws random arrays for one call: [batch, *dims], or [*dims] for a model without a batch dimension.

    Two models with the same inputs get the same arrays from the same seed. Floats lie in 0..1 and UINT8 in 0..255, as
    pixels do; categories are some that the model knows.

    Raises:
        BenchError: The model does not take batches of that size.
    """
    max_rows = config.max_batch_size or 1
    if batch > max_rows:
        limit = "max_batch_size" if config.max_batch_size else "the model has no batch dimension; the limit"
        raise BenchError(
            f"batch {batch} is more than model '{config.name}' takes: {limit} is {max_rows}; leave that size out "
            "of "
            "--batch" + (", or raise max_batch_size in its config.pbtxt" if config.max_batch_size else "")
        )
    generator = np.random.default_rng(seed)
    words = _categories(config)
    feeds: dict[str, Array] = {}
    for name, (datatype, dims) in rows.items():
        shape = (batch, *dims) if config.max_batch_size else dims
        feeds[name] = (
            _random_categories(generator, words[name], batch) if name in words else _random(generator, datatype, shape)
        )
    return feeds


def _categories(config: ModelConfig) -> dict[str, tuple[tuple[str, ...], ...]]:
    """Lists the values of each category column, by the name of the input that takes them; empty without any."""
    layout = row_layout(config)
    if layout is None or layout.category_input is None:
        return {}
    return {layout.category_input.name: tuple(layout.categories.values())}


def _random_categories(generator: np.random.Generator, columns: Sequence[Sequence[str]], batch: int) -> Array:
    drawn = np.empty((batch, len(columns)), dtype=object)
    for position, values in enumerate(columns):
        texts = values or ("",)  # a configuration may list none
        drawn[:, position] = [texts[number].encode() for number in generator.integers(0, len(texts), batch)]
    return drawn


def _random(generator: np.random.Generator, datatype: str, shape: tuple[int, ...]) -> Array:
    if datatype == "BF16":  # held as bit patterns: the upper half of a float32
        return (generator.random(shape, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if datatype in ("FP16", "FP32", "FP64"):
        # Drawn in single precision for all types, so that models in two precisions get the same numbers.
        return generator.random(shape, np.float32).astype({"FP16": "<f2", "FP32": "<f4", "FP64": "<f8"}[datatype])
    if datatype == "BOOL":
        return generator.integers(0, 2, shape).astype(np.bool_)
    dtype = np.dtype(datatype.lower())
    return generator.integers(0, 256 if datatype == "UINT8" else _SMALL, shape).astype(dtype)

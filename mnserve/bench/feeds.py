"""Random input of the dtype and shape a model takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mnserve.codec.datatypes import BY_CONFIG_TYPE
from mnserve.errors import BenchError
from mnserve.protocol.model_config_pb2 import ModelConfig

Array = np.ndarray[Any, Any]
Rows = Mapping[str, tuple[str, tuple[int, ...]]]
"""Input name -> protocol type and dimensions of one row, without the batch."""

_SMALL = 2
"""Integers other than UINT8 stay below this: they tend to be indices, and any table has rows 0 and 1."""


def input_rows(config: ModelConfig, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Protocol type and dimensions (without the batch) of each input, open dimensions filled in.

    Args:
        config: complete configuration of the model.
        shapes: input name -> dimensions without the batch, for inputs that leave some open.

    Raises:
        BenchError: a dimension stays open, a given shape does not fit, or an input holds strings.
    """
    rows: dict[str, tuple[str, tuple[int, ...]]] = {}
    for one in config.input:
        datatype = BY_CONFIG_TYPE[one.data_type].name
        dims = tuple(one.dims)
        given = shapes.get(one.name)
        if datatype == "BYTES":
            raise BenchError(
                f"input '{one.name}' of model '{config.name}' holds strings (BYTES), and random strings mean "
                "nothing to a model; only numbers can be timed here"
            )
        if given is not None:
            fits = len(given) == len(dims) and all(want in (-1, size) for want, size in zip(dims, given, strict=True))
            if not fits:
                raise BenchError(
                    f"--shape gives input '{one.name}' the dimensions {list(given)}, model '{config.name}' "
                    f"takes {list(dims)} (-1 is any size); give one size for each dimension, without the "
                    "batch"
                )
            dims = given
        elif any(size < 1 for size in dims):
            example = ",".join(str(size) if size > 0 else "SIZE" for size in dims)
            raise BenchError(
                f"input '{one.name}' of model '{config.name}' has the dimensions {list(dims)}, and -1 is any "
                f"size; choose sizes with --shape {one.name}:{example}"
            )
        rows[one.name] = (datatype, dims)
    return rows


def check_shapes_used(shapes: Mapping[str, tuple[int, ...]], rows: Sequence[Rows]) -> None:
    """Refuses shapes of inputs that no model has.

    Raises:
        BenchError: names such an input.
    """
    inputs = {name for row in rows for name in row}
    for name in shapes:
        if name not in inputs:
            raise BenchError(
                f"--shape names the input '{name}', the inputs are {', '.join(sorted(inputs))}; correct the name"
            )


def random_feeds(config: ModelConfig, rows: Rows, batch: int, seed: int) -> dict[str, Array]:
    """Random arrays for one call: [batch, *dims], or [*dims] for a model without a batch dimension.

    Two models with the same inputs get the same arrays from the same seed. Floats lie in 0..1 and UINT8 in
    0..255, as pixels do.

    Raises:
        BenchError: the model does not take batches of that size.
    """
    most = config.max_batch_size or 1
    if batch > most:
        limit = "max_batch_size" if config.max_batch_size else "the model has no batch dimension; the limit"
        raise BenchError(
            f"batch {batch} is more than model '{config.name}' takes: {limit} is {most}; leave that size out "
            "of "
            "--batch" + (", or raise max_batch_size in its config.pbtxt" if config.max_batch_size else "")
        )
    generator = np.random.default_rng(seed)
    feeds: dict[str, Array] = {}
    for name, (datatype, dims) in rows.items():
        shape = (batch, *dims) if config.max_batch_size else dims
        feeds[name] = _random(generator, datatype, shape)
    return feeds


def _random(generator: np.random.Generator, datatype: str, shape: tuple[int, ...]) -> Array:
    if datatype == "BF16":  # held as bit patterns: the upper half of a float32's
        return (generator.random(shape, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if datatype in ("FP16", "FP32", "FP64"):
        # Drawn in single precision for all of them, so that twins in two precisions see the same numbers.
        return generator.random(shape, np.float32).astype({"FP16": "<f2", "FP32": "<f4", "FP64": "<f8"}[datatype])
    if datatype == "BOOL":
        return generator.integers(0, 2, shape).astype(np.bool_)
    dtype = np.dtype(datatype.lower())
    return generator.integers(0, 256 if datatype == "UINT8" else _SMALL, shape).astype(dtype)

"""Reading of ``reshape`` from a configuration: other shapes for callers (``dims``) than for the model file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from mnserve.engines.base import Engine
from mnserve.engines.reshaped import Reshape, ReshapedEngine
from mnserve.errors import ModelConfigError
from mnserve.protocol.model_config_pb2 import ModelConfig, ModelInput, ModelOutput


def with_reshapes(config: ModelConfig, engine: Engine) -> Engine:
    """Puts an engine behind the reshapes of a configuration; without any it is returned as it is.

    Raises:
        ModelConfigError: A reshape changes the number of elements, or does not fit the model file.
    """
    inputs = _reshapes(config, "input", config.input)
    outputs = _reshapes(config, "output", config.output)
    if not inputs and not outputs:
        return engine
    try:
        return ReshapedEngine(engine, inputs, outputs, batched=config.max_batch_size > 0)
    except ModelConfigError as error:
        raise ModelConfigError(f"model '{config.name}': {error}") from error


def _reshapes(config: ModelConfig, kind: str, tensors: Iterable[ModelInput | ModelOutput]) -> dict[str, Reshape]:
    return {
        tensor.name: _reshape(tensor, f"model '{config.name}': {kind} '{tensor.name}' in config.pbtxt")
        for tensor in tensors
        if tensor.HasField("reshape")
    }


def _reshape(tensor: ModelInput | ModelOutput, what: str) -> Reshape:
    callers, model = tuple(tensor.dims), tuple(tensor.reshape.shape)
    for field, sizes in (("dims", callers), ("reshape", model)):
        if any(size < 1 and size != -1 for size in sizes):
            raise ModelConfigError(f"{what} has {field} {list(sizes)}; each size is -1 (any) or 1 or more")
    # Open sizes keep their order, so the sizes between them have to have the same product on both sides.
    if not hold_as_many(callers, model):
        raise ModelConfigError(
            f"{what} has dims {list(callers)} and reshape {list(model)}, which hold different numbers of elements; "
            "between sizes of -1, the products of both have to be equal"
        )
    return Reshape(callers=callers, model=model)


def hold_as_many(first: Sequence[int], second: Sequence[int]) -> bool:
    """Finds if one shape can be a reshape of the other; sizes of -1 are open, and keep their order."""
    return _products(first) == _products(second)


def _products(sizes: Sequence[int]) -> list[int]:
    """Multiplies the sizes between those that are -1."""
    parts: list[list[int]] = [[]]
    for size in sizes:
        if size == -1:
            parts.append([])
        else:
            parts[-1].append(size)
    return [math.prod(part) for part in parts]

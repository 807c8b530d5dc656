"""Engine whose tensors have other shapes for callers than for the model: ``reshape`` of config.pbtxt.

Shapes: B rows stay in front where the model has a batch dimension; a reshape speaks of the sizes behind them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mnserve.engines.base import Engine, TensorSpec
from mnserve.errors import EngineInputError, EngineRunError, ModelConfigError

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class Reshape:
    """Sizes of one tensor without the batch dimension, -1 for any size; both sides have as many open sizes.

    Attributes:
        callers: Sizes in requests and answers.
        model: Sizes in the model file.
    """

    callers: tuple[int, ...]
    model: tuple[int, ...]


class ReshapedEngine:
    """Takes and gives tensors in the shapes of callers, and runs the model on its own.

    Args:
        engine: Engine of the model.
        inputs: Input name -> its reshape; inputs without one pass as they are.
        outputs: Output name -> its reshape.
        batched: The model has a batch dimension.

    Raises:
        ModelConfigError: The model does not have the shape that a reshape gives it.
    """

    def __init__(
        self, engine: Engine, inputs: Mapping[str, Reshape], outputs: Mapping[str, Reshape], *, batched: bool
    ) -> None:
        self._engine = engine
        self._batch = 1 if batched else 0
        self._optional = frozenset(spec.name for spec in engine.inputs if spec.optional)
        self._input_reshapes, self._output_reshapes = inputs, outputs
        self._inputs = tuple(self._seen("input", spec, inputs) for spec in engine.inputs)
        self._outputs = tuple(self._seen("output", spec, outputs) for spec in engine.outputs)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Inputs in the model's order, with the shapes of callers."""
        return self._inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Outputs in the model's order, with the shapes of callers."""
        return self._outputs

    @property
    def metadata(self) -> Mapping[str, str]:
        """Metadata of the model."""
        return self._engine.metadata

    def run(self, feeds: Mapping[str, Array], outputs: Sequence[str]) -> list[Array]:
        """See :meth:`mnserve.engines.base.Engine.run`."""
        model_feeds = {name: self._feed(name, array) for name, array in feeds.items()}
        answers = self._engine.run(model_feeds, outputs)
        return [self._answer(name, array) for name, array in zip(outputs, answers, strict=True)]

    def trim(self) -> None:
        """See :meth:`mnserve.engines.base.Engine.trim`."""
        self._engine.trim()

    def close(self) -> None:
        """Frees the model."""
        self._engine.close()

    def _feed(self, name: str, array: Array) -> Array:
        reshape = self._input_reshapes.get(name)
        if reshape is None:
            return array
        leading = self._leading(name)
        if array.ndim < leading or not _fits(array.shape[leading:], reshape.callers):
            raise EngineInputError(
                f"input '{name}' has shape {list(array.shape)}, expected {self._full(name, reshape.callers)}"
            )
        return _reshaped(array, reshape.callers, reshape.model, leading)

    def _answer(self, name: str, array: Array) -> Array:
        reshape = self._output_reshapes.get(name)
        if reshape is None:
            return array
        if array.ndim < self._batch or not _fits(array.shape[self._batch :], reshape.model):
            raise EngineRunError(
                f"output '{name}' comes with shape {list(array.shape)}, but its reshape in config.pbtxt says "
                f"{self._full(name, reshape.model)}; correct the reshape"
            )
        return _reshaped(array, reshape.model, reshape.callers, self._batch)

    def _seen(self, kind: str, spec: TensorSpec, reshapes: Mapping[str, Reshape]) -> TensorSpec:
        """Describes a tensor as callers see it."""
        reshape = reshapes.get(spec.name)
        if reshape is None:
            return spec
        leading, shape = self._leading(spec.name), spec.shape
        if not shape:  # a scalar, or nothing declared: the configuration decides
            return replace(spec, shape=tuple(self._full(spec.name, reshape.callers)), axes=spec.axes[:leading])
        if leading and shape[0] != -1:
            raise ModelConfigError(
                f"{kind} '{spec.name}' has shape {list(shape)} in the model file, whose first dimension is no batch of "
                f"any size; set max_batch_size to 0, and the shape of its reshape to {list(shape)}"
            )
        own = shape[leading:]
        # Outputs with open sizes may come with another rank than the file says: there it is a hint.
        hint = kind == "output" and -1 in own and len(own) != len(reshape.model)
        if not hint and not _fits(reshape.model, own):
            raise ModelConfigError(
                f"{kind} '{spec.name}' has shape {list(shape)} in the model file, but its reshape in config.pbtxt says "
                f"{self._full(spec.name, reshape.model)}; correct the reshape"
                f"{', which leaves the batch dimension out' if leading else ''}"
            )
        return replace(spec, shape=(*shape[:leading], *reshape.callers), axes=spec.axes[:leading])

    def _leading(self, name: str) -> int:
        """Counts the batch dimensions of a tensor; optional inputs have none."""
        return 0 if name in self._optional else self._batch

    def _full(self, name: str, sizes: Sequence[int]) -> list[int]:
        return [-1, *sizes] if self._leading(name) else list(sizes)


def _reshaped(array: Array, before: Sequence[int], after: Sequence[int], leading: int) -> Array:
    """Gives an array of the sizes ``before`` the sizes ``after``; open sizes keep their order.

    Args:
        array: Array (*leading dimensions, *before).
        before: Its sizes, -1 for an open one.
        after: Sizes with as many open ones.
        leading: Dimensions in front that stay.
    """
    found = iter([size for size, known in zip(array.shape[leading:], before, strict=True) if known == -1])
    return array.reshape((*array.shape[:leading], *(next(found) if size == -1 else size for size in after)))


def _fits(shape: Sequence[int], expected: Sequence[int]) -> bool:
    """Finds if every tensor of one shape has the other one too, whose sizes of -1 are open."""
    return len(shape) == len(expected) and all(known in (-1, size) for size, known in zip(shape, expected, strict=True))

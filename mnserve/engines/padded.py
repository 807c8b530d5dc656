"""Engine for a model that runs at certain batch sizes only; batches in between are padded to the next size.

Shapes: a call brings B rows; the engine gets N >= B rows, and the first B rows of its outputs are returned.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mnserve.engines.base import Engine, TensorSpec
from mnserve.engines.padding import pad
from mnserve.errors import EngineInputError, EngineRunError, ModelConfigError

Array = np.ndarray[Any, Any]


class PaddedEngine:
    """Pads batches to the allowed sizes.

    A model with a fixed first dimension runs batches of that size alone; through padding it takes smaller ones, too.

    Args:
        engine: Engine of the padded batches.
        sizes: Batch sizes N, ascending, at least one.

    Raises:
        ModelConfigError: The model does not take batches of these sizes.
    """

    def __init__(self, engine: Engine, sizes: Sequence[int]) -> None:
        self._engine = engine
        self._sizes = tuple(sizes)
        required = [spec for spec in engine.inputs if not spec.optional]
        for spec in required:
            if spec.shape[:1] not in ((-1,), tuple(sizes)):
                raise ModelConfigError(
                    f"mn.allowed_batch_sizes is {list(sizes)}, but input '{spec.name}' has shape {list(spec.shape)} in "
                    "the model file; give the size of its first dimension, or set max_batch_size to 0"
                )
        if not required:
            raise ModelConfigError(f"mn.allowed_batch_sizes is {list(sizes)}, but the model has no inputs; remove it")
        self._inputs = tuple(spec if spec.optional else _any_batch(spec) for spec in engine.inputs)
        self._optional = frozenset(spec.name for spec in engine.inputs if spec.optional)
        self._outputs = tuple(_any_batch(spec) if spec.shape[:1] == tuple(sizes) else spec for spec in engine.outputs)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Inputs in the model's order."""
        return self._inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Outputs in the model's order."""
        return self._outputs

    @property
    def metadata(self) -> Mapping[str, str]:
        """Metadata of the engine that runs the padded batches."""
        return self._engine.metadata

    def run(self, feeds: Mapping[str, Array], outputs: Sequence[str]) -> list[Array]:
        """See :meth:`mnserve.engines.base.Engine.run`."""
        rows = len(feeds[self._inputs[0].name])
        index = bisect_left(self._sizes, rows)
        if index == len(self._sizes):
            raise EngineInputError(f"a batch of {rows} rows is larger than the largest allowed, {self._sizes[-1]}")
        size = self._sizes[index]
        if size == rows:
            return self._engine.run(feeds, outputs)
        whole = {
            name: array if name in self._optional else pad(array, np.empty((size, *array.shape[1:]), array.dtype))
            for name, array in feeds.items()
        }
        answers = self._engine.run(whole, outputs)
        for name, array in zip(outputs, answers, strict=True):
            if array.shape[:1] != (size,):
                raise EngineRunError(
                    f"output '{name}' has shape {list(array.shape)} for a batch of {size} rows, so padding cannot be "
                    "taken off it; remove mn.allowed_batch_sizes"
                )
        return [array[:rows] for array in answers]

    def trim(self) -> None:
        """See :meth:`mnserve.engines.base.Engine.trim`."""
        self._engine.trim()

    def close(self) -> None:
        """Frees the model."""
        self._engine.close()


def _any_batch(spec: TensorSpec) -> TensorSpec:
    return replace(spec, shape=(-1, *spec.shape[1:]))

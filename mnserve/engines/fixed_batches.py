"""Runs at fixed batch sizes, in buffers that stay where they are.

That is what a CUDA graph needs: a replay reads and writes the addresses that were bound when it was captured. Inputs
are therefore copied into the buffers of a batch size, and outputs out of them.

Shapes: a call brings B rows; the buffers of the batch size that it runs at have N >= B.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import onnxruntime as ort

from mnserve.codec.datatypes import DATATYPES
from mnserve.engines.base import TensorSpec
from mnserve.engines.device import Device
from mnserve.engines.padding import pad

Array = np.ndarray[Any, Any]

_GRAPH: Final = "gpu_graph_id"  # ONNX Runtime's run option; 0 is reserved, -1 is no graph
_CAPTURE_RUNS: Final = 3  # two without a graph, which allocate memory, and one that captures


def obstacle(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> str | None:
    """Why a model has no fixed batches, or None where it has: batch of any size, everything else of one size."""
    for kind, spec in [*(("input", spec) for spec in inputs), *(("output", spec) for spec in outputs)]:
        if spec.datatype in ("BYTES", "BF16"):
            return f"{kind} '{spec.name}' is {spec.datatype}"
        if spec.shape[:1] != (-1,):
            return f"{kind} '{spec.name}' has shape {list(spec.shape)}, whose first dimension is no batch of any size"
        if -1 in spec.shape[1:]:
            return f"{kind} '{spec.name}' has shape {list(spec.shape)}, which leaves more open than the batch"
    return None if inputs else "it has no inputs"


def without_graph() -> ort.RunOptions:
    """Options of a run that neither captures a graph nor replays one."""
    return _run_options(-1)


class FixedBatches:
    """The buffers of every batch size of one session. All calls have to come from one thread, the one that made it.

    Making it runs every batch size on zeros, which captures the graphs where the session has them.

    Args:
        session: The session; with ``enable_cuda_graph`` where buffers lie on a GPU.
        inputs: Its inputs; ``obstacle`` finds nothing wrong with them.
        outputs: Its outputs.
        sizes: Batch sizes N, at least one.
        device: Where the session computes.
    """

    def __init__(
        self,
        session: ort.InferenceSession,
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
        sizes: Sequence[int],
        device: Device,
    ) -> None:
        self._inputs = [(spec.name, spec.shape[1:], DATATYPES[spec.datatype].dtype) for spec in inputs]
        self.sizes = tuple(sorted(set(sizes)))
        """Batch sizes, ascending."""
        self._buffers = [
            _Buffers(session, inputs, outputs, size, device, number) for number, size in enumerate(self.sizes, start=1)
        ]

    def run(self, feeds: Mapping[str, Array], outputs: Sequence[str]) -> list[Array] | None:
        """Runs the batch at the smallest size that holds it.

        Args:
            feeds: Input name -> array [B, ...].
            outputs: Names of the outputs wanted.

        Returns:
            Arrays [B, ...] of their own; None for a batch that is larger than every size, or that is not what the model
            takes, which the session itself has words for.
        """
        rows = self._rows(feeds)
        index = len(self.sizes) if rows is None else bisect_left(self.sizes, rows)
        if rows is None or index == len(self.sizes):
            return None
        return self._buffers[index].run(feeds, rows, outputs)

    def _rows(self, feeds: Mapping[str, Array]) -> int | None:
        """B, or None where a buffer would take the feeds for something else: nothing below here looks at types."""
        if len(feeds) != len(self._inputs):
            return None
        found = {feeds[name].shape[:1] for name, _, _ in self._inputs if name in feeds}
        right = all(
            name in feeds and feeds[name].shape[1:] == shape and feeds[name].dtype == dtype
            for name, shape, dtype in self._inputs
        )
        (first, *others) = found or {()}
        return first[0] if right and first and not others else None


class _Buffers:
    """The buffers of one batch size, bound for good."""

    def __init__(
        self,
        session: ort.InferenceSession,
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
        size: int,
        device: Device,
        graph: int,
    ) -> None:
        self._session, self._size = session, size
        self._inputs = {spec.name: _buffer(spec, size, device) for spec in inputs}
        self._outputs = {spec.name: _buffer(spec, size, device) for spec in outputs}
        # Padded batches are put together here; a GPU gets them in one copy.
        self._padded = {spec.name: np.zeros((size, *spec.shape[1:]), DATATYPES[spec.datatype].dtype) for spec in inputs}
        self._binding = session.io_binding()
        for name, value in self._inputs.items():
            value.update_inplace(self._padded[name])
            self._binding.bind_ortvalue_input(name, value)
        for name, value in self._outputs.items():
            self._binding.bind_ortvalue_output(name, value)
        self._options = _run_options(graph)
        for _ in range(_CAPTURE_RUNS):
            session.run_with_iobinding(self._binding, self._options)

    def run(self, feeds: Mapping[str, Array], rows: int, outputs: Sequence[str]) -> list[Array]:
        for name, value in self._inputs.items():
            value.update_inplace(self._whole(name, feeds[name], rows))
        self._session.run_with_iobinding(self._binding, self._options)
        # On a CPU, `numpy()` is a view of the buffer.
        return [np.array(self._outputs[name].numpy()[:rows]) for name in outputs]

    def _whole(self, name: str, array: Array, rows: int) -> Array:
        """[N, ...]: the rows, and padding behind them, never what an earlier call left."""
        return array if rows == self._size else pad(array, self._padded[name])


def _buffer(spec: TensorSpec, size: int, device: Device) -> ort.OrtValue:
    shape = [size, *spec.shape[1:]]
    return ort.OrtValue.ortvalue_from_shape_and_type(
        shape, DATATYPES[spec.datatype].dtype.type, device.kind, device.number
    )


def _run_options(graph: int) -> ort.RunOptions:
    options = ort.RunOptions()
    options.log_severity_level = 4  # as the session: errors come as exceptions
    options.add_run_config_entry(_GRAPH, str(graph))
    return options

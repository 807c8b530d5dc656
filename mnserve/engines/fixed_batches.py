"""Runs at fixed batch sizes, in buffers with fixed addresses.

A CUDA graph needs fixed addresses: a replay reads and writes those that were bound at its capture. Inputs are therefore
copied into the buffers of a batch size, and outputs out of them.

Shapes: a call brings B rows; the buffers of the batch size that it runs at have N >= B.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from mnserve.codec.datatypes import DATATYPES
from mnserve.engines.base import TensorSpec
from mnserve.engines.device import Device
from mnserve.engines.padding import pad
from mnserve.engines.runtime import onnxruntime as ort

Array = np.ndarray[Any, Any]

_GRAPH: Final = "gpu_graph_id"  # ONNX Runtime's run option; 0 is reserved, -1 is no graph
_CAPTURE_RUNS: Final = 3  # two without a graph, which allocate memory, and one that captures


def obstacle(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> str | None:
    """Describes why a model cannot have fixed batches, or returns None where it can.

    Fixed batches need a first dimension of any size, fixed sizes of all others, and numbers that numpy has.
    """
    for kind, spec in [*(("input", spec) for spec in inputs), *(("output", spec) for spec in outputs)]:
        if spec.datatype in ("BYTES", "BF16"):
            return f"{kind} '{spec.name}' is {spec.datatype}"
        if spec.shape[:1] != (-1,):
            return f"{kind} '{spec.name}' has shape {list(spec.shape)}, whose first dimension is no batch of any size"
        if -1 in spec.shape[1:]:
            return f"{kind} '{spec.name}' has shape {list(spec.shape)}, which leaves more open than the batch"
    return None if inputs else "it has no inputs"


def without_graph() -> ort.RunOptions:
    """Returns options of a run that neither captures nor replays a graph."""
    return _run_options(-1)


class FixedBatches:
    """Buffers of every batch size of one session. All calls have to come from the thread that made the object.

    The constructor runs every batch size on zeros, which captures the graphs where the session has them.

    Args:
        session: The session; with ``enable_cuda_graph`` where buffers lie on a GPU.
        inputs: Inputs of the session, without an ``obstacle``.
        outputs: Outputs of the session, without an ``obstacle``.
        sizes: Batch sizes N, at least one.
        device: Device of the session and of the buffers.
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
        """Runs a batch at the smallest size that holds it.

        Args:
            feeds: Input name -> array [B, ...].
            outputs: Names of the outputs to compute.

        Returns:
            Arrays [B, ...] with their own memory. None for a batch that is larger than every size, or that does not fit
            the model: the session itself then has an error message.
        """
        rows = self._rows(feeds)
        index = len(self.sizes) if rows is None else bisect_left(self.sizes, rows)
        if rows is None or index == len(self.sizes):
            return None
        return self._buffers[index].run(feeds, rows, outputs)

    def _rows(self, feeds: Mapping[str, Array]) -> int | None:
        """Returns B, or None for feeds of another type or shape, which a buffer would take without a check."""
        if len(feeds) != len(self._inputs):
            return None
        batch_shapes = {feeds[name].shape[:1] for name, _, _ in self._inputs if name in feeds}
        fits = all(
            name in feeds and feeds[name].shape[1:] == shape and feeds[name].dtype == dtype
            for name, shape, dtype in self._inputs
        )
        (first, *others) = batch_shapes or {()}
        return first[0] if fits and first and not others else None


class _Buffers:
    """Buffers of one batch size, bound once."""

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
        # Padded batches are assembled here; a GPU gets each in one copy.
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
        """Returns [N, ...]: the rows and fresh padding behind them, never rows of an earlier call."""
        return array if rows == self._size else pad(array, self._padded[name])


def _buffer(spec: TensorSpec, size: int, device: Device) -> ort.OrtValue:
    shape = [size, *spec.shape[1:]]
    return ort.OrtValue.ortvalue_from_shape_and_type(
        shape, DATATYPES[spec.datatype].dtype.type, device.kind, device.number
    )


def _run_options(graph: int) -> ort.RunOptions:
    options = ort.RunOptions()
    options.log_severity_level = 4  # as in the session: errors come as exceptions
    options.add_run_config_entry(_GRAPH, str(graph))
    return options

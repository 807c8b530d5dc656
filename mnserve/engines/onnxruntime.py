"""Engine of ONNX files: ONNX Runtime.

Arrays are passed on without a copy. Two element types need a conversion: numpy has no bfloat16, so its bit patterns are
passed on, and ONNX strings are UTF-8 text while the protocol's BYTES are bytes. Batches of CUDA graph sizes are copied
into fixed buffers instead (``fixed_batches``).
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from mnserve.engines.base import EngineOptions, TensorSpec
from mnserve.engines.device import cuda_device
from mnserve.engines.fixed_batches import FixedBatches, obstacle
from mnserve.engines.runtime import onnxruntime as ort
from mnserve.engines.sessions import open_session, reason, run_options, trimming_options
from mnserve.errors import EngineInputError, EngineLoadError, EngineRunError

Array = np.ndarray[Any, Any]

_log = logging.getLogger(__name__)

_DATATYPES: Final = {
    "tensor(bool)": "BOOL",
    "tensor(uint8)": "UINT8",
    "tensor(uint16)": "UINT16",
    "tensor(uint32)": "UINT32",
    "tensor(uint64)": "UINT64",
    "tensor(int8)": "INT8",
    "tensor(int16)": "INT16",
    "tensor(int32)": "INT32",
    "tensor(int64)": "INT64",
    "tensor(float16)": "FP16",
    "tensor(bfloat16)": "BF16",
    "tensor(float)": "FP32",
    "tensor(double)": "FP64",
    "tensor(string)": "BYTES",
}
_BFLOAT16: Final = 16  # number of the element type in onnx.TensorProto


class OnnxRuntimeEngine:
    """Engine of one ONNX Runtime session.

    Raises:
        EngineLoadError: The file is missing or damaged, has an unsupported operator or element type, or a requested
            provider is missing.
    """

    def __init__(self, path: Path, options: EngineOptions) -> None:
        self._path = path
        session, graphs = open_session(path, options)
        self._session: ort.InferenceSession | None = session
        self._inputs = (
            *(_spec(argument, path) for argument in session.get_inputs()),
            *(replace(_spec(argument, path), optional=True) for argument in _defaults(session)),
        )
        self._outputs = _outputs(session, path)
        self._metadata = dict(session.get_modelmeta().custom_metadata_map)
        self._providers = tuple(session.get_providers())
        self._input_types = {spec.name: spec.datatype for spec in self._inputs}
        self._plain = not any(spec.datatype in ("BF16", "BYTES") for spec in (*self._inputs, *self._outputs))
        self._has_bfloat16 = any(spec.datatype == "BF16" for spec in (*self._inputs, *self._outputs))
        self._run_options = run_options(options, graphs=graphs)
        self._trimming = None if graphs or not options.session.memory_arena else trimming_options()
        self._trims_next = False
        self._fixed = self._capture(session, options) if graphs else None

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
        """The custom metadata of the ONNX file."""
        return self._metadata

    @property
    def providers(self) -> tuple[str, ...]:
        """Execution providers in use, best first."""
        return self._providers

    @property
    def graph_batches(self) -> tuple[int, ...]:
        """Batch sizes that run as CUDA graphs, ascending; empty without graphs."""
        return () if self._fixed is None else self._fixed.sizes

    def run(self, feeds: Mapping[str, Array], outputs: Sequence[str]) -> list[Array]:
        """See :meth:`mnserve.engines.base.Engine.run`."""
        session = self._session
        if session is None:
            raise EngineRunError(f"{self._path} was closed")
        if self._trims_next:
            return self._run_trimming(feeds, outputs)
        try:
            replayed = None if self._fixed is None else self._fixed.run(feeds, outputs)
            if replayed is not None:
                return replayed
            if self._plain:
                result: list[Array] = session.run(list(outputs), feeds, self._run_options)
                return result
            if self._has_bfloat16:
                values = {name: self._to_value(name, array) for name, array in feeds.items()}
                answers = session.run_with_ort_values(list(outputs), values, self._run_options)
                return [_from_value(value) for value in answers]
            texts = {name: _to_text(name, array) for name, array in feeds.items()}
            result = session.run(list(outputs), texts, self._run_options)
            return result  # noqa: RET504 (gives the untyped call a type)
        except EngineRunError:
            raise
        except Exception as error:
            raise EngineRunError(f"ONNX Runtime failed on {self._path.name}: {reason(error)}") from error

    def trim(self) -> None:
        """See :meth:`mnserve.engines.base.Engine.trim`; only the arena of the CPU can be given back."""
        self._trims_next = self._trimming is not None

    def _run_trimming(self, feeds: Mapping[str, Array], outputs: Sequence[str]) -> list[Array]:
        self._trims_next = False
        usual, self._run_options = self._run_options, self._trimming
        try:
            return self.run(feeds, outputs)
        finally:
            self._run_options = usual

    def close(self) -> None:
        """Frees the session and its memory."""
        self._fixed = None  # its buffers are bound to the session
        self._session = None

    def _capture(self, session: ort.InferenceSession, options: EngineOptions) -> FixedBatches | None:
        """Captures the graphs of this model; None and a warning where it cannot have any."""
        inputs = [spec for spec in self._inputs if not spec.optional]
        problem = obstacle(inputs, self._outputs)
        if problem is not None:
            _log.warning("%s runs without CUDA graphs: %s", self._path, problem)
            return None
        try:
            return FixedBatches(session, inputs, self._outputs, options.cuda_graph_batches, cuda_device(options))
        except Exception as error:
            sizes = ", ".join(map(str, options.cuda_graph_batches))
            raise EngineLoadError(
                f"ONNX Runtime cannot capture {self._path} at batch {sizes}: {reason(error)}; ask for fewer or smaller "
                "batch sizes, or for none"
            ) from error

    def _to_value(self, name: str, array: Array) -> ort.OrtValue:
        if self._input_types.get(name) == "BF16":
            return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, _BFLOAT16)
        return ort.OrtValue.ortvalue_from_numpy(_to_text(name, array))


def _spec(argument: Any, path: Path) -> TensorSpec:
    datatype = _DATATYPES.get(argument.type)
    if datatype is None:
        raise EngineLoadError(f"{path}: '{argument.name}' has type {argument.type}, which cannot be served")
    shape = tuple(size if isinstance(size, int) and size >= 0 else -1 for size in argument.shape)
    axes = tuple(size if isinstance(size, str) else "" for size in argument.shape)
    return TensorSpec(name=argument.name, datatype=datatype, shape=shape, axes=axes)


def _defaults(session: ort.InferenceSession) -> list[Any]:
    """Lists the initialisers that a run may replace; those of types that cannot travel keep their values."""
    return [argument for argument in session.get_overridable_initializers() if argument.type in _DATATYPES]


def _outputs(session: ort.InferenceSession, path: Path) -> tuple[TensorSpec, ...]:
    """Lists the outputs whose types can travel; the others are left out, and a run does not compute them for itself."""
    arguments = session.get_outputs()
    left_out = [argument for argument in arguments if argument.type not in _DATATYPES]
    kept = tuple(_spec(argument, path) for argument in arguments if argument.type in _DATATYPES)
    texts = ", ".join(f"'{argument.name}' ({argument.type})" for argument in left_out)
    if not kept:
        raise EngineLoadError(f"{path}: no output has a type that can be served; there is {texts or 'none at all'}")
    if left_out:
        _log.warning("%s: left out, as their types cannot travel: output %s", path, texts)
    return kept


def _to_text(name: str, array: Array) -> Array:
    """Converts BYTES (object array of bytes or str) to an object array of str; other arrays stay as they are."""
    if array.dtype != object:
        return array
    text = np.empty(array.size, dtype=object)
    try:
        text[:] = [element.decode("utf-8") if isinstance(element, bytes) else element for element in array.ravel()]
    except UnicodeDecodeError as error:
        raise EngineInputError(
            f"input '{name}' holds a string that is not UTF-8 ({error.reason}); ONNX strings must be"
        ) from error
    return text.reshape(array.shape)


def _from_value(value: ort.OrtValue) -> Array:
    if value.data_type() != "tensor(bfloat16)":
        array: Array = value.numpy()
        return array
    shape = tuple(value.shape())
    count = int(np.prod(shape, dtype=np.int64))
    if count == 0:
        return np.empty(shape, dtype=np.uint16)
    # The runtime cannot convert this type to an array, so its memory is read as 16-bit patterns and copied.
    memory = (ctypes.c_uint16 * count).from_address(value.data_ptr())
    return np.ctypeslib.as_array(memory).reshape(shape).copy()

"""Run models with ONNX Runtime alone: one session with default options on the CPU."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import ml_dtypes
import numpy as np
import onnx

from mnserve.engines.runtime import onnxruntime as ort
from onnx_suite.arrays import Array

_PROVIDERS: Final = ["CPUExecutionProvider"]
_NARROW: Final = {
    "tensor(bfloat16)": (onnx.TensorProto.BFLOAT16, np.dtype(ml_dtypes.bfloat16)),
    "tensor(float8e4m3fn)": (onnx.TensorProto.FLOAT8E4M3FN, np.dtype(ml_dtypes.float8_e4m3fn)),
    "tensor(float8e4m3fnuz)": (onnx.TensorProto.FLOAT8E4M3FNUZ, np.dtype(ml_dtypes.float8_e4m3fnuz)),
    "tensor(float8e5m2)": (onnx.TensorProto.FLOAT8E5M2, np.dtype(ml_dtypes.float8_e5m2)),
    "tensor(float8e5m2fnuz)": (onnx.TensorProto.FLOAT8E5M2FNUZ, np.dtype(ml_dtypes.float8_e5m2fnuz)),
}
"""Element types that numpy lacks: number in ONNX, and type of the array."""


@dataclass(frozen=True, kw_only=True)
class RawTensor:
    """Name and type of an input or output, as ONNX Runtime names it."""

    name: str
    type: str


class RawSession:
    """A session of ONNX Runtime without anything of ours.

    Raises:
        Exception: ONNX Runtime does not load the model; it has no error of its own for that.
    """

    def __init__(self, model: bytes) -> None:
        options = ort.SessionOptions()
        options.log_severity_level = 4  # what it cannot load is told by the error
        self._session = ort.InferenceSession(model, options, providers=_PROVIDERS)
        self.inputs = _tensors(self._session.get_inputs())
        self.outputs = _tensors(self._session.get_outputs())

    def run(self, values: Sequence[Any]) -> list[Any]:
        """Run on values of the first inputs; returns an array for each tensor.

        Raises:
            Exception: ONNX Runtime fails.
        """
        feeds = {tensor.name: value for tensor, value in zip(self.inputs, values, strict=False)}
        used = self.inputs[: len(feeds)]
        if not any(tensor.type in _NARROW for tensor in (*used, *self.outputs)):
            answers: list[Any] = self._session.run(None, feeds)
            return answers
        ort_values = {tensor.name: _ort_value(tensor, feeds[tensor.name]) for tensor in used}
        return [_array(value) for value in self._session.run_with_ort_values(None, ort_values)]


def _tensors(arguments: Sequence[Any]) -> tuple[RawTensor, ...]:
    return tuple(RawTensor(name=argument.name, type=argument.type) for argument in arguments)


def _ort_value(tensor: RawTensor, array: Array) -> ort.OrtValue:
    if tensor.type not in _NARROW:
        return ort.OrtValue.ortvalue_from_numpy(np.asarray(array, order="C"))
    number, dtype = _NARROW[tensor.type]
    bits = np.asarray(array, order="C").view(np.uint16 if dtype.itemsize == 2 else np.uint8)
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, number)


def _array(value: ort.OrtValue) -> Array:
    if value.data_type() not in _NARROW:
        array: Array = value.numpy()
        return array
    _, dtype = _NARROW[value.data_type()]
    shape = tuple(value.shape())
    # The runtime does not turn these types into arrays: the memory is read as it is.
    memory = ctypes.string_at(value.data_ptr(), int(np.prod(shape)) * dtype.itemsize)
    return np.frombuffer(memory, dtype=dtype).reshape(shape)

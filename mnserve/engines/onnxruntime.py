"""Runs ONNX files with ONNX Runtime.

Arrays go in as they are, without a copy. Two element types need a detour: numpy has no bfloat16 (its bit
patterns are handed over as such), and ONNX strings are UTF-8 text while the protocol's BYTES are bytes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime as ort

from mnserve.cpu import available_cpus
from mnserve.engines.base import EngineOptions, TensorSpec
from mnserve.engines.providers import default_options
from mnserve.errors import EngineInputError, EngineLoadError, EngineRunError

__all__ = ["OnnxRuntimeEngine"]

Array = np.ndarray[Any, Any]

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
_FATAL_ONLY: Final = 4  # errors reach the caller as exceptions; they need not be printed too


class OnnxRuntimeEngine:
    """One ONNX Runtime session.

    Raises:
        EngineLoadError: The file is missing or damaged, uses an operator or element type that is not
            supported, or a provider that was asked for is not there.
    """

    def __init__(self, path: Path, options: EngineOptions) -> None:
        self._path = path
        _check_providers(options)
        session_options = ort.SessionOptions()
        session_options.log_severity_level = _FATAL_ONLY
        session_options.intra_op_num_threads = options.intra_op_threads or available_cpus()
        session_options.inter_op_num_threads = options.inter_op_threads
        try:
            session = ort.InferenceSession(
                path,
                sess_options=session_options,
                providers=_present(path, options),
                enable_fallback=False,
            )
        except Exception as error:  # the runtime's exceptions derive from Exception alone
            raise EngineLoadError(f"ONNX Runtime cannot load {path}: {_reason(error)}") from error
        missing = [name for name in options.providers if name not in session.get_providers()]
        if missing and not options.allow_fallback:
            raise EngineLoadError(
                f"{', '.join(missing)} did not start for {path}; the session has "
                f"{', '.join(session.get_providers())}: repair its libraries, or allow the fallback"
            )
        self._session: ort.InferenceSession | None = session
        self._inputs = tuple(_spec(argument, path) for argument in session.get_inputs())
        self._outputs = tuple(_spec(argument, path) for argument in session.get_outputs())
        self._metadata = dict(session.get_modelmeta().custom_metadata_map)
        self._providers = tuple(session.get_providers())
        self._input_types = {spec.name: spec.datatype for spec in self._inputs}
        self._plain = not any(spec.datatype in ("BF16", "BYTES") for spec in (*self._inputs, *self._outputs))
        self._has_bfloat16 = any(spec.datatype == "BF16" for spec in (*self._inputs, *self._outputs))

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
        """Execution providers that are really in use, best first."""
        return self._providers

    def run(self, feeds: Mapping[str, Array], outputs: Sequence[str]) -> list[Array]:
        """See :meth:`mnserve.engines.base.Engine.run`."""
        session = self._session
        if session is None:
            raise EngineRunError(f"{self._path} was closed")
        try:
            if self._plain:
                result: list[Array] = session.run(list(outputs), feeds)
                return result
            if self._has_bfloat16:
                values = {name: self._to_value(name, array) for name, array in feeds.items()}
                return [_from_value(value) for value in session.run_with_ort_values(list(outputs), values)]
            texts = {name: _to_text(name, array) for name, array in feeds.items()}
            result = session.run(list(outputs), texts)
            return result  # noqa: RET504 (gives the untyped call a type)
        except EngineRunError:
            raise
        except Exception as error:
            raise EngineRunError(f"ONNX Runtime failed on {self._path.name}: {_reason(error)}") from error

    def close(self) -> None:
        """Frees the session and its memory."""
        self._session = None

    def _to_value(self, name: str, array: Array) -> ort.OrtValue:
        if self._input_types.get(name) == "BF16":
            return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, _BFLOAT16)
        return ort.OrtValue.ortvalue_from_numpy(_to_text(name, array))


def _check_providers(options: EngineOptions) -> None:
    available = ort.get_available_providers()
    missing = [name for name in options.providers if name not in available]
    if not missing or (options.allow_fallback and len(missing) < len(options.providers)):
        return
    raise EngineLoadError(
        f"execution provider {', '.join(missing)} is not in this build of ONNX Runtime, which has "
        f"{', '.join(available)}; install onnxruntime-gpu for CUDA and TensorRT, or name another provider"
    )


def _present(path: Path, options: EngineOptions) -> list[tuple[str, dict[str, str]]]:
    """The providers that this build has, with their options."""
    available = ort.get_available_providers()
    found = []
    for name in options.providers:
        if name not in available:
            continue
        given = {option.key: option.value for option in options.provider_options if option.provider == name}
        settings = {**default_options(name, path), **given}
        for key, value in settings.items():
            if key.endswith("cache_path"):
                _make_folder(Path(value), name)
        found.append((name, settings))
    return found


def _make_folder(path: Path, provider: str) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EngineLoadError(
            f"{provider} cannot keep its engines in {path}: {error.strerror}; give another folder with the option for "
            "its cache path"
        ) from error


def _spec(argument: Any, path: Path) -> TensorSpec:
    datatype = _DATATYPES.get(argument.type)
    if datatype is None:
        raise EngineLoadError(f"{path}: '{argument.name}' has type {argument.type}, which cannot be served")
    shape = tuple(size if isinstance(size, int) and size >= 0 else -1 for size in argument.shape)
    return TensorSpec(name=argument.name, datatype=datatype, shape=shape)


def _to_text(name: str, array: Array) -> Array:
    """BYTES (object array of bytes or str) -> object array of str; other arrays as they are."""
    if array.dtype != object:
        return array
    text = np.empty(array.size, dtype=object)
    try:
        text[:] = [item.decode("utf-8") if isinstance(item, bytes) else item for item in array.ravel()]
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
    # The runtime cannot make an array of this type; its memory is read as 16-bit patterns and copied out.
    memory = (ctypes.c_uint16 * count).from_address(value.data_ptr())
    return np.ctypeslib.as_array(memory).reshape(shape).copy()


def _reason(error: Exception) -> str:
    """The runtime's message on one line, without its prefix of numbers."""
    message = " ".join(str(error).split())
    return message.split(" : ", 3)[-1] if message.startswith("[ONNXRuntimeError]") else message

"""Element types of tensors in the Open Inference Protocol, with their names elsewhere.

=========  ==============  ================  =============================
protocol   config.pbtxt    numpy             typed contents field
=========  ==============  ================  =============================
BOOL       TYPE_BOOL       bool              bool_contents
UINT8-32   TYPE_UINT8-32   uint8-32          uint_contents
UINT64     TYPE_UINT64     uint64            uint64_contents
INT8-32    TYPE_INT8-32    int8-32           int_contents
INT64      TYPE_INT64      int64             int64_contents
FP16       TYPE_FP16       float16           none (raw only)
BF16       TYPE_BF16       uint16 (bits)     none (raw only)
FP32       TYPE_FP32       float32           fp32_contents
FP64       TYPE_FP64       float64           fp64_contents
BYTES      TYPE_STRING     object (bytes)    bytes_contents
=========  ==============  ================  =============================

numpy has no bfloat16: such a tensor is held as its bit patterns, the upper half of a float32's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from mnserve.protocol import model_config_pb2


@dataclass(frozen=True, kw_only=True)
class Datatype:
    """One element type.

    Attributes:
        name: Name in the protocol, such as ``FP32``.
        config_type: Number in the enum ``DataType`` of the model configuration.
        dtype: Type of the elements in arrays; little-endian in raw contents.
        contents: Field of ``InferTensorContents`` that carries the elements; None for a type that is raw only.
        floating: Elements can be NaN or infinite.
    """

    name: str
    config_type: int
    dtype: np.dtype[Any]
    contents: str | None
    floating: bool = False

    @cached_property
    def is_bytes(self) -> bool:
        """True if elements have a length of their own (BYTES)."""
        return self.dtype.kind == "O"

    def zeros(self, shape: Sequence[int]) -> np.ndarray[Any, Any]:
        """Makes an array of zeros, or of empty strings."""
        return np.full(shape, b"", dtype=object) if self.is_bytes else np.zeros(shape, dtype=self.dtype)


def _all() -> dict[str, Datatype]:
    rows = [
        ("BOOL", "TYPE_BOOL", "?", "bool_contents"),
        ("UINT8", "TYPE_UINT8", "u1", "uint_contents"),
        ("UINT16", "TYPE_UINT16", "<u2", "uint_contents"),
        ("UINT32", "TYPE_UINT32", "<u4", "uint_contents"),
        ("UINT64", "TYPE_UINT64", "<u8", "uint64_contents"),
        ("INT8", "TYPE_INT8", "i1", "int_contents"),
        ("INT16", "TYPE_INT16", "<i2", "int_contents"),
        ("INT32", "TYPE_INT32", "<i4", "int_contents"),
        ("INT64", "TYPE_INT64", "<i8", "int64_contents"),
        ("FP16", "TYPE_FP16", "<f2", None),
        ("BF16", "TYPE_BF16", "<u2", None),
        ("FP32", "TYPE_FP32", "<f4", "fp32_contents"),
        ("FP64", "TYPE_FP64", "<f8", "fp64_contents"),
        ("BYTES", "TYPE_STRING", "O", "bytes_contents"),
    ]
    return {
        name: Datatype(
            name=name,
            config_type=int(model_config_pb2.DataType.Value(config_type)),
            dtype=np.dtype(code),
            contents=contents,
            floating=name in ("FP16", "BF16", "FP32", "FP64"),
        )
        for name, config_type, code, contents in rows
    }


DATATYPES: Final = MappingProxyType(_all())
"""Protocol name -> type."""

BY_CONFIG_TYPE: Final = MappingProxyType({datatype.config_type: datatype for datatype in DATATYPES.values()})
"""Number of the enum ``DataType`` -> type."""

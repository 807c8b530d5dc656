"""Tensors side by side in one piece of memory, as they travel between processes.

Each tensor has its raw contents of the protocol and starts at a multiple of 64 bytes. Where one has elements of BYTES,
whose lengths are their own, the sizes of all tensors stand in front, as u64.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np

from mnserve.codec.datatypes import DATATYPES
from mnserve.codec.tensors import array_to_raw, element_count, raw_to_array
from mnserve.errors import EngineRunError, InvalidRequestError

Array: TypeAlias = np.ndarray[Any, Any]
Buffer: TypeAlias = bytes | memoryview

ALIGNMENT: Final = 64
MAX_DIMENSIONS: Final = 64
"""Most dimensions of an array of numpy."""
_STRINGS: Final = "BYTES"
_NAMES: Final = MappingProxyType(
    {datatype.dtype: name for name, datatype in DATATYPES.items() if name not in ("BF16", _STRINGS)}
)
"""Type of elements -> name. Bit patterns of BF16 travel as UINT16: both sides know what they are."""


def datatype_name(array: Array) -> str:
    """Names the type of the elements of an array.

    Raises:
        EngineRunError: The protocol has none like it.
    """
    name = _NAMES.get(array.dtype)
    if name is not None:
        return name
    if array.dtype.kind in "OSU":
        return _STRINGS
    raise EngineRunError(f"a tensor has elements of type {array.dtype}, for which the protocol has no name")


class PackedTensors:
    """Places of some tensors, which many requests or answers have in common.

    Args:
        tensors: Type and shape of each.

    Attributes:
        nbytes: Size of all in bytes; None where there are strings.
        elements: Number of their elements.

    Raises:
        ValueError: A type or a shape makes no sense.
    """

    __slots__ = ("_datatypes", "_gaps", "_places", "elements", "nbytes")

    def __init__(self, tensors: Sequence[tuple[str, Sequence[int]]]) -> None:
        self._datatypes = []
        self._places: list[tuple[tuple[int, ...], np.dtype[Any], int]] = []
        self._gaps: list[bytes] = []
        self.elements, end = 0, 0
        for name, shape in tensors:
            if name not in DATATYPES or len(shape) > MAX_DIMENSIONS:
                raise ValueError(f"a tensor of type {name!r} with {len(shape)} dimensions makes no sense")
            if not all(isinstance(size, int) and size >= 0 for size in shape):
                raise ValueError(f"the shape {list(shape)} makes no sense")
            datatype = DATATYPES[name]
            try:
                count = element_count(shape, datatype, "a tensor")
            except InvalidRequestError as error:
                raise ValueError(str(error)) from None
            start = _aligned(end)
            self._gaps.append(bytes(start - end))
            self._datatypes.append(datatype)
            self._places.append((tuple(shape), datatype.dtype, start))
            self.elements += count
            end = start + count * datatype.dtype.itemsize
        self.nbytes = None if any(datatype.is_bytes for datatype in self._datatypes) else end

    def pack(self, arrays: Iterable[Array]) -> bytes:
        """Lays the tensors out in memory of their own; strings too."""
        if self.nbytes is None:
            return _packed_strings(
                [array_to_raw(array, datatype) for array, datatype in zip(arrays, self._datatypes, strict=True)]
            )
        parts: list[bytes] = []
        for array, gap in zip(arrays, self._gaps, strict=True):
            parts += (gap, array.tobytes())
        return parts[1] if len(parts) == 2 else b"".join(parts)

    def write(self, arrays: Iterable[Array], memory: memoryview, offset: int) -> None:
        """Lays tensors without strings out at an offset of a memory, which has room for them."""
        for array, (shape, dtype, start) in zip(arrays, self._places, strict=True):
            np.ndarray(shape, dtype, memory, offset + start)[...] = array

    def view(self, buffer: Buffer, offset: int) -> list[Array]:
        """Finds tensors without strings at an offset of a buffer, which has all their bytes.

        Returns:
            Views of the buffer. Whatever is cut out of one of them keeps that one alive.
        """
        return [np.ndarray(shape, dtype, buffer, offset + start) for shape, dtype, start in self._places]

    def unpack(self, payload: bytes) -> list[Array]:
        """Takes tensors out of what :meth:`pack` returned; numbers as views of it.

        Raises:
            ValueError: It has other tensors, or is damaged.
        """
        if self.nbytes is not None:
            if len(payload) != self.nbytes:
                raise ValueError(f"the payload has {len(payload)} bytes, expected {self.nbytes}")
            return self.view(payload, 0)
        heads = struct.Struct(f"<{len(self._places)}Q")
        if len(payload) < heads.size:
            raise ValueError(f"the payload has {len(payload)} bytes, which is less than the sizes of its tensors")
        arrays, end = [], heads.size
        for size, datatype, (shape, _, _) in zip(
            heads.unpack_from(payload), self._datatypes, self._places, strict=True
        ):
            start = _aligned(end)
            end = start + size
            try:
                arrays.append(raw_to_array(payload[start:end], datatype, shape, "a tensor"))
            except InvalidRequestError as error:
                raise ValueError(str(error)) from None
        return arrays


def _aligned(position: int) -> int:
    return -(-position // ALIGNMENT) * ALIGNMENT


def _packed_strings(raws: Sequence[bytes]) -> bytes:
    parts = [struct.pack(f"<{len(raws)}Q", *map(len, raws))]
    end = len(parts[0])
    for raw in raws:
        start = _aligned(end)
        parts += (bytes(start - end), raw)
        end = start + len(raw)
    return b"".join(parts)

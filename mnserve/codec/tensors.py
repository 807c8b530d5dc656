"""Conversion of one tensor of the protocol and one array: raw bytes, typed contents, and the values allowed in them.

Raw bytes are row-major and little-endian without padding; numbers in them are viewed, not copied. No memory is taken
for a shape before it was compared with the content. Elements of BYTES become objects, some 50 bytes each beside their
contents and up to two microseconds; typed contents take a tenth of that time. Every fault is an InvalidRequestError
that names the tensor, what came and what was expected.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from mnserve.codec.datatypes import Datatype
from mnserve.errors import InvalidRequestError
from mnserve.protocol.service_pb2 import InferTensorContents

Array = np.ndarray[Any, Any]

MAX_BYTES: Final = 2**62
"""Sizes beyond this cannot be addressed; numpy refuses them too."""
INLINE_BYTES: Final = 2**20
"""Raw numbers up to this size are copied and checked on the event loop. It takes about a millisecond, ten times as long
as a hand-over to a thread."""
TYPED_WORK: Final = 64
"""Cost of one element of typed contents, in bytes of raw numbers that take as long."""
_ONE_THREAD: Final = 8192
"""Elements up to which BLAS computes a dot product in the calling thread."""
_BLAS: Final = ("FP32", "FP64")
_LENGTH: Final = struct.Struct("<I")
_CHUNK: Final = 65_536
"""Elements of typed contents taken in one go; other threads get their turn in between."""
_CONTENTS_FIELDS: Final = tuple(field.name for field in InferTensorContents.DESCRIPTOR.fields)


def element_count(shape: Sequence[int], datatype: Datatype, what: str) -> int:
    """Counts the elements of a shape without negative sizes.

    Args:
        shape: Size of each dimension.
        datatype: Element type.
        what: Name of the tensor for messages, such as ``input 'x'``.
    """
    non_zero = math.prod(size for size in shape if size)
    if non_zero * datatype.dtype.itemsize > MAX_BYTES:
        raise InvalidRequestError(f"{what} has shape {list(shape)}, which is more than {MAX_BYTES} bytes")
    return 0 if 0 in shape else non_zero


def raw_to_array(raw: bytes, datatype: Datatype, shape: Sequence[int], what: str) -> Array:
    """Views raw bytes as an array (read-only, without a copy); BYTES elements become an object array of bytes."""
    count = element_count(shape, datatype, what)
    if datatype.is_bytes:
        return _objects(_split_bytes(raw, count, what), shape)
    expected = count * datatype.dtype.itemsize
    if len(raw) != expected:
        raise InvalidRequestError(
            f"{what} has {len(raw)} bytes of raw contents, expected {expected} for shape {list(shape)} of "
            f"{datatype.name}"
        )
    array = np.frombuffer(raw, dtype=datatype.dtype).reshape(shape)
    if datatype.name == "BOOL" and count and array.view(np.uint8).max() > 1:
        raise InvalidRequestError(f"{what} has a BOOL element that is neither 0 nor 1")
    return array


def contents_to_array(contents: InferTensorContents, datatype: Datatype, shape: Sequence[int], what: str) -> Array:
    """Builds an array from typed contents."""
    count = element_count(shape, datatype, what)
    if datatype.contents is None:
        raise InvalidRequestError(f"{what} is {datatype.name}, which travels only as raw_input_contents")
    for field in _CONTENTS_FIELDS:
        if field != datatype.contents and getattr(contents, field):
            raise InvalidRequestError(f"{what} is {datatype.name} but carries {field}, expected {datatype.contents}")
    values = getattr(contents, datatype.contents)
    if len(values) != count:
        raise InvalidRequestError(
            f"{what} has {len(values)} elements in {datatype.contents}, expected {count} for shape {list(shape)}"
        )
    if datatype.is_bytes:
        return _copied(values, np.dtype(object)).reshape(shape)
    if datatype.contents in ("int_contents", "uint_contents"):
        wide = _copied(values, np.dtype(np.int64))
        limits = np.iinfo(datatype.dtype)
        if count and (wide.min() < limits.min or wide.max() > limits.max):
            raise InvalidRequestError(
                f"{what} has values from {wide.min()} to {wide.max()}, expected {datatype.name} from {limits.min} "
                f"to {limits.max}"
            )
        return wide.astype(datatype.dtype).reshape(shape)
    return _copied(values, datatype.dtype).reshape(shape)


def array_to_raw(array: Array, datatype: Datatype) -> bytes:
    """Lays an array out as raw bytes. BYTES elements are bytes or str (sent as UTF-8)."""
    if not datatype.is_bytes:
        return array.astype(datatype.dtype, copy=False).tobytes()
    parts: list[bytes] = []
    for element in array.ravel():
        data = element if isinstance(element, bytes) else str(element).encode("utf-8")
        parts += (_LENGTH.pack(len(data)), data)
    return b"".join(parts)


def first_non_finite(
    array: Array, datatype: Datatype, *, allow_nan: bool = False
) -> tuple[int, tuple[int, ...]] | None:
    """Counts NaN and infinite elements, or with ``allow_nan`` infinite ones alone.

    The sum of an array is finite only if every element is, so the common case costs one pass without a temporary array.
    It may overflow where all elements are finite; then they are counted.

    Returns:
        Their number and the index of the first, or None where all are finite or the type has no such values.
    """
    if not datatype.floating or array.size == 0:
        return None
    if array.size <= _ONE_THREAD and datatype.name in _BLAS and array.flags.c_contiguous:
        if math.isfinite(np.vdot(array, array)):  # takes a third of the time of the sum and its error state
            return None
        bad = np.isinf(array) if allow_nan else ~np.isfinite(array)
    elif datatype.name == "BF16":
        # Exponent all ones; the fraction of infinity is 0.
        bad = (array & 0x7FFF) == 0x7F80 if allow_nan else (array & 0x7F80) == 0x7F80
    else:
        with np.errstate(all="ignore"):
            total = array.sum(dtype=np.float32 if datatype.name == "FP16" else None)
        if math.isfinite(total):
            return None
        bad = np.isinf(array) if allow_nan else ~np.isfinite(array)
    count = int(np.count_nonzero(bad))
    if count == 0:
        return None
    index = np.unravel_index(int(np.argmax(bad)), array.shape)
    return count, tuple(int(position) for position in index)


def _copied(values: Sequence[Any], dtype: np.dtype[Any]) -> Array:
    """Copies a repeated field to an array (count,). One call for all of it would keep every other thread waiting."""
    array = np.empty(len(values), dtype=dtype)
    for start in range(0, len(values), _CHUNK):
        array[start : start + _CHUNK] = values[start : start + _CHUNK]
    return array


def _objects(items: list[bytes], shape: Sequence[int]) -> Array:
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array.reshape(shape)


def _split_bytes(raw: bytes, count: int, what: str) -> list[bytes]:
    """Splits ``<u32 length><bytes>`` elements."""
    if count * _LENGTH.size > len(raw):
        raise InvalidRequestError(
            f"{what} has {len(raw)} bytes of raw contents, expected at least {count * _LENGTH.size} for {count} "
            "elements of BYTES"
        )
    items: list[bytes] = []
    position = 0
    while position < len(raw):
        if len(items) == count:
            raise InvalidRequestError(
                f"{what} has {len(raw) - position} bytes left after its {count} elements of BYTES"
            )
        if position + _LENGTH.size > len(raw):
            raise InvalidRequestError(f"{what} ends inside the length of BYTES element {len(items)}")
        (length,) = _LENGTH.unpack_from(raw, position)
        position += _LENGTH.size
        if length > len(raw) - position:
            raise InvalidRequestError(
                f"{what}: BYTES element {len(items)} claims {length} bytes, but {len(raw) - position} are left"
            )
        items.append(raw[position : position + length])
        position += length
    if len(items) != count:
        raise InvalidRequestError(f"{what} has {len(items)} elements of BYTES, expected {count}")
    return items

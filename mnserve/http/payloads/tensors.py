"""Tensors as JSON: nested or flat lists become raw contents, and raw contents flat lists.

JSON has no NaN: null stands for it, in both directions. FP16 and BF16 travel as binary tensors alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from types import NoneType
from typing import Any, Final

import numpy as np

from mnserve.codec.datatypes import DATATYPES, Datatype
from mnserve.codec.tensors import array_to_raw, raw_to_array
from mnserve.errors import InvalidRequestError

_KINDS: Final[dict[str, frozenset[type]]] = {
    "f": frozenset((int, float, NoneType)),
    "i": frozenset((int,)),
    "u": frozenset((int,)),
    "b": frozenset((bool,)),
    "O": frozenset((str, bytes)),
}
_NOUNS: Final = {
    "f": "numbers, and null for NaN",
    "i": "whole numbers",
    "u": "whole numbers from 0 on",
    "b": "true and false",
    "O": "text",
}
_NAMES: Final = {int: "a number", float: "a fraction", str: "text", bool: "true or false", NoneType: "null"}
_BINARY_ONLY: Final = ("FP16", "BF16")


def json_to_raw(data: Any, datatype: Datatype, shape: Sequence[int], what: str) -> bytes:
    """Lays the elements of a tensor out as raw contents.

    Args:
        data: List of JSON: as deep as the shape, or flat.
        datatype: Element type.
        shape: Size of each dimension.
        what: Name of the tensor for messages, such as ``input 'x'``.

    Raises:
        InvalidRequestError: The data do not fit type or shape.
    """
    if datatype.name in _BINARY_ONLY:
        raise InvalidRequestError(
            f"{what} is {datatype.name}, which travels only as a binary tensor; send it with binary_data_size"
        )
    elements = _flat(data, shape, what)
    expected = math.prod(shape)
    if len(elements) != expected:
        raise InvalidRequestError(
            f"{what} has {len(elements)} elements in data, expected {expected} for shape {list(shape)}"
        )
    return _raw(elements, datatype, what)


def flat_texts(data: Any, shape: Sequence[int], what: str) -> list[str]:
    """Returns the elements of a tensor of text.

    Args:
        data: List of JSON: as deep as the shape, or flat.
        shape: Size of each dimension.
        what: Name of the tensor for messages.

    Raises:
        InvalidRequestError: They are no text, or do not fit the shape.
    """
    elements = _flat(data, shape, what)
    if len(elements) != math.prod(shape) or any(type(element) is not str for element in elements):
        raise InvalidRequestError(f"{what} has data that are no {math.prod(shape)} texts, as its shape says")
    return elements


def _flat(data: Any, shape: Sequence[int], what: str) -> list[Any]:
    """Flattens a list whose nesting is that of a shape; a flat list stays as it is."""
    if not isinstance(data, list):
        if shape:
            raise InvalidRequestError(f"{what} has data that are no list; send a list of its elements")
        return [data]
    if not data or not isinstance(data[0], list):
        return data
    items = data
    for depth, size in enumerate(shape):
        if depth:
            if any(type(item) is not list for item in items):
                raise InvalidRequestError(f"{what} has data whose nesting is not that of shape {list(shape)}")
            lengths = set(map(len, items))
            if lengths and lengths != {size}:
                raise _wrong_nesting(what, shape, depth, lengths)
            items = list(chain.from_iterable(items))
        elif len(items) != size:
            raise _wrong_nesting(what, shape, depth, {len(items)})
    return items


def _wrong_nesting(what: str, shape: Sequence[int], depth: int, lengths: set[int]) -> InvalidRequestError:
    found = sorted(lengths)[:4]
    return InvalidRequestError(
        f"{what} has data with lists of {', '.join(map(str, found))} elements at depth {depth}, expected "
        f"{shape[depth]} for shape {list(shape)}"
    )


def _raw(elements: list[Any], datatype: Datatype, what: str) -> bytes:
    kind = datatype.dtype.kind
    allowed = _KINDS[kind]
    if not allowed.issuperset(kinds := set(map(type, elements))):
        wrong = next(iter(kinds - allowed))
        index = next(index for index, element in enumerate(elements) if type(element) is wrong)
        raise InvalidRequestError(
            f"{what} is {datatype.name}, but element {index} of its data is "
            f"{_NAMES.get(wrong, 'a list or an object')}; expected {_NOUNS[kind]}"
        )
    if datatype.is_bytes:
        array = np.empty(len(elements), dtype=object)
        array[:] = elements
        return array_to_raw(array, datatype)
    if kind in "iu":
        return _integers(elements, datatype, what)
    array = np.array(elements, dtype=bool if kind == "b" else np.float64)
    if datatype.name == "FP32":
        with np.errstate(over="ignore"):
            narrow = array.astype(np.float32)
        if (too_large := np.isinf(narrow) & np.isfinite(array)).any():
            value = array[too_large.argmax()]
            raise InvalidRequestError(f"{what} has the value {value}, beyond what FP32 holds; scale it")
        array = narrow
    return array.astype(datatype.dtype, copy=False).tobytes()


def _integers(elements: list[int], datatype: Datatype, what: str) -> bytes:
    limits = np.iinfo(datatype.dtype)
    smallest, largest = (min(elements), max(elements)) if elements else (0, 0)
    if smallest < limits.min or largest > limits.max:
        raise InvalidRequestError(
            f"{what} has values from {smallest} to {largest}, expected {datatype.name} from {limits.min} to "
            f"{limits.max}"
        )
    return np.array(elements, dtype=datatype.dtype).tobytes()


def raw_to_json(raw: bytes, datatype_name: str, shape: Sequence[int], what: str) -> Any:
    """Returns the elements of a tensor, flat and row-major, for ``orjson``.

    Args:
        raw: Raw contents.
        datatype_name: Name of the element type.
        shape: Size of each dimension.
        what: Name of the tensor for messages.

    Raises:
        InvalidRequestError: JSON cannot hold them.
    """
    remedy = "ask for it with the parameter binary_data: true"
    if datatype_name in _BINARY_ONLY:
        raise InvalidRequestError(f"{what} is {datatype_name}, which travels only as a binary tensor; {remedy}")
    datatype = DATATYPES[datatype_name]
    array = raw_to_array(raw, datatype, shape, what).reshape(-1)
    if datatype.is_bytes:
        try:
            return [element.decode() for element in array]
        except UnicodeDecodeError:
            raise InvalidRequestError(f"{what} has bytes that are no UTF-8 text; {remedy}") from None
    if datatype.floating and np.isinf(array).any():
        raise InvalidRequestError(f"{what} has infinite values, which JSON has not; {remedy}")
    return array

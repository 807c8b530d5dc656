"""Predictions of tensors that the page sends as nested lists, for models of any kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mnserve.codec.datatypes import Datatype
from mnserve.codec.signature import RequestSignature
from mnserve.console.called_model import ConsoleModel
from mnserve.errors import InvalidRequestError
from mnserve.text.names import listed, printable, shortened

MAX_SHOWN: Final = 1000
"""Elements of an output that are shown."""
_BITS: Final = "BF16"
"""Type whose elements are held as their bit patterns, the upper half of a float32's."""
_MOST_EXACT: Final = 2**53 - 1
"""Largest whole number that JavaScript reads as it is written; larger ones are told as texts."""


def predict_tensors(
    model: ConsoleModel, signature: RequestSignature, tensors: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Runs a model on tensors.

    Args:
        model: The model.
        signature: Its inputs and outputs.
        tensors: Input name -> nested lists of numbers, texts, or true and false.

    Returns:
        Name, type, shape and first elements of each output, in values of JSON. Numbers that JSON or JavaScript would
        change are texts: whole ones beyond 2**53, infinities and NaN.

    Raises:
        MnServeError: A tensor cannot be used, or the request fails.
    """
    rules = {rule.name: rule for rule in (*signature.inputs, *signature.optional_inputs)}
    feeds = {}
    for name, value in tensors.items():
        if name not in rules:
            raise InvalidRequestError(
                f"the model has no input '{printable(shortened(name))}'; it has {listed(list(rules))}"
            )
        feeds[name] = _array(name, value, rules[name].datatype)
    types = {rule.name: rule.datatype for rule in signature.outputs}
    return [_output(name, array, types[name]) for name, array in model.infer(feeds, ()).items()]


def _array(name: str, value: Any, datatype: Datatype) -> NDArray[Any]:
    what = f"input '{name}'"
    try:
        # As Python has them: no text takes the room of the longest, no number is wrapped.
        array = np.array(value, object)
    except ValueError:
        raise _no_tensor(what) from None
    elements = array.ravel().tolist()
    if any(isinstance(item, (list, dict)) for item in elements):
        raise _no_tensor(what)
    kinds = _kinds(datatype)
    if not all(isinstance(item, kinds) for item in elements):
        raise InvalidRequestError(f"{what} is {datatype.name}, but has other values; write elements of that type")
    if datatype.is_bytes:
        return _encoded(what, elements).reshape(array.shape)
    if datatype.floating:
        return _floats(what, array, datatype)
    if datatype.dtype.kind in "iu" and elements:
        limits = np.iinfo(datatype.dtype)
        if min(elements) < limits.min or max(elements) > limits.max:
            raise InvalidRequestError(f"{what} is {datatype.name}, from {limits.min} to {limits.max}")
    return array.astype(datatype.dtype)


def _no_tensor(what: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"{what} is no tensor: its lists have different lengths, or are too deep; write it like [[1, 2], [3, 4]]"
    )


def _encoded(what: str, elements: list[str]) -> NDArray[Any]:
    encoded = np.empty(len(elements), object)
    try:
        encoded[:] = [item.encode() for item in elements]
    except UnicodeEncodeError as error:
        raise InvalidRequestError(
            f"{what} has a text with {error.object[error.start]!a}, half of a character, which no UTF-8 has; leave "
            "it out"
        ) from None
    return encoded


def _floats(what: str, array: NDArray[Any], datatype: Datatype) -> NDArray[Any]:
    bits = datatype.name == _BITS
    try:
        with np.errstate(over="ignore"):
            typed = array.astype(np.float32 if bits else datatype.dtype)
            if bits:
                typed = _rounded(typed)
        finite = bool(np.isfinite(typed).all())
    except OverflowError:  # a whole number beyond any float
        finite = False
    if not finite:
        raise InvalidRequestError(
            f"{what} is {datatype.name}, which cannot hold one of its numbers; write smaller ones"
        )
    return (typed.view(np.uint32) >> 16).astype(datatype.dtype) if bits else typed


def _rounded(array: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rounds to the nearest number whose lower half is zero; of two that are as near, to the even one."""
    patterns = array.view(np.uint32)
    patterns = patterns + (0x7FFF + ((patterns >> 16) & 1))
    return (patterns & np.uint32(0xFFFF0000)).view(np.float32)


def _kinds(datatype: Datatype) -> tuple[type, ...]:
    if datatype.is_bytes:
        return (str,)
    if datatype.dtype.kind == "b":
        return (bool,)
    return (bool, int, float) if datatype.floating else (bool, int)


def _output(name: str, array: NDArray[Any], datatype: Datatype) -> dict[str, Any]:
    flat = array.ravel()[:MAX_SHOWN]
    if datatype.name == _BITS:
        flat = (flat.astype(np.uint32) << 16).view(np.float32)
    return {
        "name": name,
        "datatype": datatype.name,
        "shape": list(array.shape),
        "count": int(array.size),
        "values": [_plain(item) for item in flat.tolist()],
    }


def _plain(item: Any) -> Any:
    if isinstance(item, bytes):
        return item.decode("utf-8", "replace")
    if isinstance(item, float):
        return item if np.isfinite(item) else str(item)
    return str(item) if abs(item) > _MOST_EXACT else item

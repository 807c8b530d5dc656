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
"""Type whose numbers no list can hold."""


def predict_tensors(
    model: ConsoleModel, signature: RequestSignature, tensors: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Runs a model on tensors.

    Args:
        model: The model.
        signature: Its inputs and outputs.
        tensors: Input name -> nested lists of numbers, texts, or true and false.

    Returns:
        Name, type, shape and first elements of each output, in values of JSON.

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
    if datatype.name == _BITS:
        raise InvalidRequestError(f"{what} is {_BITS}, which the page cannot send; call the model through a client")
    try:
        array = np.array(
            value, object
        )  # as Python has them: no text takes the room of the longest, no number is wrapped
        elements = array.ravel().tolist()
        if any(isinstance(item, (list, dict)) for item in elements):
            raise ValueError
        kinds = _kinds(datatype)
        if not all(isinstance(item, kinds) for item in elements):
            raise InvalidRequestError(f"{what} is {datatype.name}, but has other values; write elements of that type")
        if datatype.is_bytes:
            encoded = np.empty(array.size, object)
            encoded[:] = [item.encode() for item in elements]
            return encoded.reshape(array.shape)
        if datatype.dtype.kind in "iu" and elements:
            limits = np.iinfo(datatype.dtype)
            if min(elements) < limits.min or max(elements) > limits.max:
                raise InvalidRequestError(f"{what} is {datatype.name}, from {limits.min} to {limits.max}")
        with np.errstate(over="ignore"):
            typed = array.astype(datatype.dtype)
        if datatype.floating and not np.isfinite(typed).all():
            raise InvalidRequestError(
                f"{what} is {datatype.name}, which cannot hold one of its numbers; write smaller ones"
            )
        return typed
    except (ValueError, OverflowError):
        raise InvalidRequestError(
            f"{what} is no tensor: its lists have different lengths, or are too deep; write it like [[1, 2], [3, 4]]"
        ) from None


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
    return item if not isinstance(item, float) or np.isfinite(item) else str(item)

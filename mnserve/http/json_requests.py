"""Inference requests in JSON, with or without binary tensors behind it, as messages of the protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from mnserve.codec.datatypes import DATATYPES
from mnserve.codec.request_layout import MAX_DIMENSIONS
from mnserve.codec.shared_tensors import REGION
from mnserve.errors import InvalidRequestError
from mnserve.http.json_tensors import json_to_raw
from mnserve.protocol import service_pb2 as pb
from mnserve.text.names import printable, shortened

MAX_VALUES: Final = 2**22
"""Most values of a JSON text. Each becomes an object of some 32 bytes, from as few as two."""
_BINARY_SIZE: Final = "binary_data_size"
_BINARY: Final = "binary_data"
_BINARY_OUTPUT: Final = "binary_data_output"
_LARGEST: Final = 2**63


@dataclass(frozen=True, kw_only=True)
class AnswerForm:
    """How the outputs of an answer are wanted.

    Attributes:
        binary: Outputs that name no form are binary tensors.
        named: Output -> it is wanted as a binary tensor.
    """

    binary: bool = False
    named: Mapping[str, bool]

    def is_binary(self, name: str) -> bool:
        """True if an output is wanted as a binary tensor."""
        return self.named.get(name, self.binary)


def read_request(
    body: bytes, json_bytes: int | None, model: str, version: str
) -> tuple[pb.ModelInferRequest, AnswerForm]:
    """Reads a request.

    Args:
        body: JSON, then the binary tensors.
        json_bytes: Length of the JSON; None where it is the whole body.
        model: Name of the model in the path.
        version: Version in the path; empty where it has none.

    Raises:
        InvalidRequestError: The body is no request.
    """
    if json_bytes is not None and json_bytes > len(body):
        raise InvalidRequestError(
            f"the header Inference-Header-Content-Length is {json_bytes}, but the body has {len(body)} bytes"
        )
    content = _parsed(body if json_bytes is None else body[:json_bytes])
    request = pb.ModelInferRequest(model_name=model, model_version=version, id=_text(content, "id", "the request"))
    parameters = _object(content, "parameters", "the request")
    binary = _truth(parameters.pop(_BINARY_OUTPUT, False), _BINARY_OUTPUT)
    set_parameters(request.parameters, parameters, "the request")
    position = len(body) if json_bytes is None else json_bytes
    view = memoryview(body)
    for tensor in _list(content, "inputs"):
        position = _add_input(request, tensor, view, position)
    if position != len(body):
        raise InvalidRequestError(
            f"the body has {len(body) - position} bytes behind its binary tensors; correct binary_data_size, or the "
            "header Inference-Header-Content-Length"
        )
    named: dict[str, bool] = {}
    for tensor in _list(content, "outputs"):
        name = _text(tensor, "name", "an output")
        parameters = _object(tensor, "parameters", f"output '{_shown(name)}'")
        if _BINARY in parameters:
            named[name] = _truth(parameters.pop(_BINARY), _BINARY)
        output = request.outputs.add(name=name)
        set_parameters(output.parameters, parameters, f"output '{_shown(name)}'")
    return request, AnswerForm(binary=binary, named=named)


def _parsed(text: bytes) -> dict[str, Any]:
    count = text.count(b",") + text.count(b"[") + text.count(b"{")
    if count > MAX_VALUES:
        raise InvalidRequestError(
            f"the JSON has more than {MAX_VALUES} values; send tensors as binary data, or split the request"
        )
    try:
        content = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidRequestError(
            f"the body is no JSON: {error}; with binary tensors behind it, the header Inference-Header-Content-Length "
            "has the length of the JSON"
        ) from None
    if not isinstance(content, dict):
        raise InvalidRequestError("the body is JSON, but no object; send one with inputs")
    return content


def _add_input(request: pb.ModelInferRequest, tensor: dict[str, Any], body: memoryview, position: int) -> int:
    """Adds an input; returns the position behind its binary data."""
    name = _text(tensor, "name", "an input")
    what = f"input '{_shown(name)}'"
    datatype_name = _text(tensor, "datatype", what)
    shape = _shape(tensor.get("shape"), what)
    parameters = _object(tensor, "parameters", what)
    size = parameters.pop(_BINARY_SIZE, None)
    added = request.inputs.add(name=name, datatype=datatype_name, shape=shape)
    set_parameters(added.parameters, parameters, what)
    if size is not None:
        if type(size) is not int or not 0 <= size <= len(body) - position:
            raise InvalidRequestError(
                f"{what} has {_BINARY_SIZE} {_shown(str(size))}, but {len(body) - position} bytes of binary data are "
                "left"
            )
        if "data" in tensor:
            raise InvalidRequestError(f"{what} has data, and {_BINARY_SIZE}; send it once")
        request.raw_input_contents.append(bytes(body[position : position + size]))
        return position + size
    if REGION in parameters:
        if "data" in tensor:
            raise InvalidRequestError(f"{what} has data, and is in shared memory; send it once")
        return position
    if "data" not in tensor:
        raise InvalidRequestError(f"{what} has no data; send data, or {_BINARY_SIZE} with binary data behind the JSON")
    datatype = DATATYPES.get(datatype_name)
    if datatype is None:
        raise InvalidRequestError(
            f"{what} has datatype '{_shown(datatype_name)}', expected one of {', '.join(DATATYPES)}"
        )
    if any(size < 0 for size in shape):
        raise InvalidRequestError(f"{what} has shape {shape} with a negative size")
    request.raw_input_contents.append(json_to_raw(tensor["data"], datatype, shape, what))
    return position


def set_parameters(target: Any, parameters: Mapping[str, Any], what: str) -> None:
    """Writes values of JSON as parameters of the protocol.

    Args:
        target: Map of the message.
        parameters: Name -> value.
        what: Owner of the parameters, for messages.

    Raises:
        InvalidRequestError: A value is a list, an object, null, or an integer of more than 64 bits.
    """
    for name, value in parameters.items():
        if isinstance(value, bool):
            target[name].bool_param = value
        elif isinstance(value, str):
            target[name].string_param = value
        elif isinstance(value, int) and -_LARGEST <= value < 2 * _LARGEST:
            if value < _LARGEST:
                target[name].int64_param = value
            else:
                target[name].uint64_param = value
        elif isinstance(value, float):
            target[name].double_param = value
        else:
            raise InvalidRequestError(
                f"the parameter '{_shown(name)}' of {what} is neither text, a number, true nor false"
            )


def _shape(value: Any, what: str) -> list[int]:
    if not isinstance(value, list) or any(type(size) is not int for size in value):
        raise InvalidRequestError(f"{what} has no shape; send a list of whole numbers, such as [1, 4]")
    if len(value) > MAX_DIMENSIONS:
        raise InvalidRequestError(f"{what} has a shape of {len(value)} dimensions, expected at most {MAX_DIMENSIONS}")
    if any(not -_LARGEST <= size < _LARGEST for size in value):
        raise InvalidRequestError(f"{what} has shape {value}, with a size of more than 64 bits")
    return value


def _text(owner: Mapping[str, Any], key: str, what: str) -> str:
    value = owner.get(key, "")
    if not isinstance(value, str):
        raise InvalidRequestError(f"the field {key} of {what} is no text; write it in quotes")
    return value


def _object(owner: Mapping[str, Any], key: str, what: str) -> dict[str, Any]:
    value = owner.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidRequestError(f"the field {key} of {what} is no object; write one, such as {{}}")
    return dict(value)


def _list(content: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    value = content.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or any(type(item) is not dict for item in value):
        raise InvalidRequestError(f"the field {key} is no list of objects; write one, such as [{{}}]")
    return value


def _truth(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidRequestError(f"the parameter {name} is neither true nor false")
    return value


def _shown(text: str) -> str:
    return printable(shortened(text))

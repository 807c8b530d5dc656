"""Inference requests in JSON, with or without binary tensors behind it, as messages of the protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from mnserve.codec.datatypes import DATATYPES
from mnserve.codec.shared_tensors import REGION
from mnserve.errors import InvalidRequestError
from mnserve.http.payloads.fields import list_of, object_of, set_parameters, shape_of, shown, text_of, truth_of
from mnserve.http.payloads.sent_images import SentImages, base64_bytes, shown_name
from mnserve.http.payloads.tensors import flat_texts, json_to_raw
from mnserve.protocol import service_pb2 as pb

MAX_VALUES: Final = 2**22
"""Most values of a JSON text. Each becomes an object of some 32 bytes, from as few as two."""
_BINARY_SIZE: Final = "binary_data_size"
_BINARY: Final = "binary_data"
_BINARY_OUTPUT: Final = "binary_data_output"
_CONTENT_TYPE: Final = "content_type"
"""Parameter of an input of BYTES whose data are base64 text: ``base64``, or one of images."""
_IMAGES: Final = ("image", "pillow_image")
_BASE64: Final = "base64"


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


@dataclass(frozen=True, kw_only=True)
class ReadRequest:
    """A request that was read.

    Attributes:
        message: Its message.
        form: Form of the answer.
        images: Images in it, whose input in the message has no content yet; None where it has none.
    """

    message: pb.ModelInferRequest
    form: AnswerForm
    images: SentImages | None


def read_request(body: bytes, json_bytes: int | None, model: str, version: str) -> ReadRequest:
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
    request = pb.ModelInferRequest(model_name=model, model_version=version, id=text_of(content, "id", "the request"))
    parameters = object_of(content, "parameters", "the request")
    binary = truth_of(parameters.pop(_BINARY_OUTPUT, False), _BINARY_OUTPUT)
    set_parameters(request.parameters, parameters, "the request")
    position = len(body) if json_bytes is None else json_bytes
    view, images = memoryview(body), None
    for tensor in list_of(content, "inputs"):
        if (sent := _sent_images(request, tensor)) is None:
            position = _add_input(request, tensor, view, position)
        elif images is not None:
            raise InvalidRequestError("the request has two inputs with images; models take one")
        else:
            images = sent
    if position != len(body):
        raise InvalidRequestError(
            f"the body has {len(body) - position} bytes behind its binary tensors; correct binary_data_size, or the "
            "header Inference-Header-Content-Length"
        )
    named: dict[str, bool] = {}
    for tensor in list_of(content, "outputs"):
        name = text_of(tensor, "name", "an output")
        parameters = object_of(tensor, "parameters", f"output '{shown(name)}'")
        if (wanted := parameters.pop(_BINARY, None)) is not None:
            named[name] = truth_of(wanted, _BINARY)
        output = request.outputs.add(name=name)
        set_parameters(output.parameters, parameters, f"output '{shown(name)}'")
    return ReadRequest(message=request, form=AnswerForm(binary=binary, named=named), images=images)


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
    name = text_of(tensor, "name", "an input")
    what = f"input '{shown(name)}'"
    datatype_name = text_of(tensor, "datatype", what)
    shape = shape_of(tensor.get("shape"), what)
    parameters = object_of(tensor, "parameters", what)
    size = parameters.pop(_BINARY_SIZE, None)
    added = request.inputs.add(name=name, datatype=datatype_name, shape=shape)
    set_parameters(added.parameters, parameters, what)
    if size is not None:
        if type(size) is not int or not 0 <= size <= len(body) - position:
            raise InvalidRequestError(
                f"{what} has {_BINARY_SIZE} {shown(str(size))}, but {len(body) - position} bytes of binary data are "
                "left"
            )
        if tensor.get("data") is not None:
            raise InvalidRequestError(f"{what} has data, and {_BINARY_SIZE}; send it once")
        request.raw_input_contents.append(bytes(body[position : position + size]))
        return position + size
    if parameters.get(REGION) is not None:
        if tensor.get("data") is not None:
            raise InvalidRequestError(f"{what} has data, and is in shared memory; send it once")
        return position
    if (data := tensor.get("data")) is None:
        raise InvalidRequestError(f"{what} has no data; send data, or {_BINARY_SIZE} with binary data behind the JSON")
    datatype = DATATYPES.get(datatype_name)
    if datatype is None:
        raise InvalidRequestError(
            f"{what} has datatype '{shown(datatype_name)}', expected one of {', '.join(DATATYPES)}"
        )
    if any(size < 0 for size in shape):
        raise InvalidRequestError(f"{what} has shape {shape} with a negative size")
    if datatype.is_bytes and parameters.get(_CONTENT_TYPE) == _BASE64:
        data = [base64_bytes(text, what) for text in flat_texts(data, shape, what)]
    request.raw_input_contents.append(json_to_raw(data, datatype, shape, what))
    return position


def _sent_images(request: pb.ModelInferRequest, tensor: dict[str, Any]) -> SentImages | None:
    """Adds an input whose data are images as base64 text; None for any other input."""
    parameters = object_of(tensor, "parameters", "an input")
    kind = parameters.get(_CONTENT_TYPE)
    if not isinstance(kind, str) or not kind.startswith(_IMAGES) or tensor.get("datatype") != "BYTES":
        return None
    name = text_of(tensor, "name", "an input")
    what = f"input '{shown(name)}'"
    texts = flat_texts(tensor.get("data"), shape_of(tensor.get("shape"), what), what)
    request.inputs.add(name=name, datatype="BYTES", shape=[len(texts)])
    position = len(request.raw_input_contents)
    if position != len(request.inputs) - 1:
        raise InvalidRequestError(f"{what} has images, and another input is in shared memory; send it in the request")
    request.raw_input_contents.append(b"")
    return SentImages(
        files=[base64_bytes(text, f"image {number} of {what}") for number, text in enumerate(texts)],
        names=[shown_name("", number) for number in range(len(texts))],
        resize=truth_of(parameters.get("resize", False), "resize"),
        position=position,
    )

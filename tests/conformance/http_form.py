"""Requests and answers of the Open Inference Protocol over HTTP, as they are on the wire."""

from __future__ import annotations

import http.client
import json
import struct
from typing import Any, NamedTuple

import numpy as np
from open_inference import DTYPES
from tritonclient.grpc import service_pb2 as pb

LENGTH = "Inference-Header-Content-Length"
STATUSES = {"INVALID_ARGUMENT": 400, "NOT_FOUND": 404, "UNIMPLEMENTED": 501, "UNAVAILABLE": 503}


class Answer(NamedTuple):
    """An answer.

    Attributes:
        status: Status of HTTP.
        headers: Headers, names in lower case.
        body: The body.
    """

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """Its JSON, without binary tensors behind it."""
        length = self.headers.get(LENGTH.lower())
        return json.loads(self.body if length is None else self.body[: int(length)])

    @property
    def error(self) -> str:
        """Message of a failure, which has this one form."""
        content = self.json
        assert list(content) == ["error"], content
        return str(content["error"])


class HttpServer:
    """A server to talk to, over one connection.

    Args:
        address: HOST:PORT.
    """

    def __init__(self, address: str) -> None:
        self._connection = http.client.HTTPConnection(address, timeout=60)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Sends a request; a body that is not bytes is sent as JSON."""
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        self._connection.request(
            method, path, content, {name.replace("_", "-"): text for name, text in headers.items()}
        )
        response = self._connection.getresponse()
        received = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, received, response.read())

    def infer(self, message: Any, *, binary: bool, output_form: bool | None = None) -> Answer:
        """Sends a request of gRPC as JSON, with its raw contents as binary tensors or as elements."""
        text, behind = body_of(message, binary=binary, output_form=binary if output_form is None else output_form)
        version = f"/versions/{message.model_version}" if message.model_version else ""
        headers = {LENGTH: str(len(text))} if behind else {}
        return self.ask("POST", f"/v2/models/{message.model_name}{version}/infer", text + behind, **headers)

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()


def body_of(message: Any, *, binary: bool, output_form: bool) -> tuple[bytes, bytes]:
    """JSON and binary tensors of a request of gRPC; raw contents that are no elements stay binary."""
    raw = list(message.raw_input_contents)
    inputs, behind = [], b""
    for tensor in message.inputs:
        item: dict[str, Any] = {"name": tensor.name, "datatype": tensor.datatype, "shape": list(tensor.shape)}
        parameters = _parameters(tensor.parameters)
        data = _typed(tensor.contents)
        if data is None and raw:
            content = raw.pop(0)
            data = None if binary else _elements(tensor, content)
            if data is None:
                parameters["binary_data_size"] = len(content)
                behind += content
        if data is not None:
            item["data"] = data
        inputs.append({**item, "parameters": parameters})
    outputs = [{"name": output.name, "parameters": _parameters(output.parameters)} for output in message.outputs]
    content = {
        "id": message.id,
        "parameters": {**_parameters(message.parameters), "binary_data_output": output_form},
        "inputs": inputs,
        "outputs": outputs,
    }
    return json.dumps(content).encode(), behind


def outputs_of(answer: Answer) -> dict[str, np.ndarray[Any, Any]]:
    """Outputs as arrays; BYTES are objects, BF16 the bits."""
    assert answer.status == 200, answer.body[:500]
    position = int(answer.headers.get(LENGTH.lower(), len(answer.body)))
    found: dict[str, np.ndarray[Any, Any]] = {}
    for output in answer.json["outputs"]:
        dtype = DTYPES.get(output["datatype"], np.dtype("<u2"))
        size = output.get("parameters", {}).get("binary_data_size")
        if size is None:
            assert output["datatype"] not in ("FP16", "BF16")
            texts = output["datatype"] == "BYTES"
            data = [text.encode() for text in output["data"]] if texts else output["data"]
            array = np.array(data, dtype=object if texts else dtype)
        else:
            content = answer.body[position : position + size]
            position += size
            texts = output["datatype"] == "BYTES"
            array = np.array(_split(content), dtype=object) if texts else np.frombuffer(content, dtype)
        found[output["name"]] = array.reshape(output["shape"])
    assert position == len(answer.body)
    return found


def _typed(contents: pb.InferTensorContents) -> list[Any] | None:
    for _, values in contents.ListFields():
        return [value.decode() if isinstance(value, bytes) else value for value in values]
    return None


def _elements(tensor: Any, content: bytes) -> list[Any] | None:
    """Elements of raw contents; None where JSON cannot have them."""
    dtype = DTYPES.get(tensor.datatype)
    if dtype is None or tensor.datatype == "FP16" or len(content) % dtype.itemsize:
        return None
    array = np.frombuffer(content, dtype)
    return array.tolist() if np.isfinite(array).all() else None


def _split(raw: bytes) -> list[bytes]:
    items = []
    while raw:
        (length,) = struct.unpack_from("<I", raw)
        items.append(raw[4 : 4 + length])
        raw = raw[4 + length :]
    return items


def _parameters(parameters: Any) -> dict[str, Any]:
    return {name: getattr(value, str(value.WhichOneof("parameter_choice"))) for name, value in parameters.items()}

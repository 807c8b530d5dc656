"""Answers of inference as JSON, with or without binary tensors behind it."""

from __future__ import annotations

from typing import Any

import orjson

from mnserve.codec.shared_tensors import REGION
from mnserve.http.answers import BINARY, JSON, HttpAnswer
from mnserve.http.payloads.requests import AnswerForm
from mnserve.http.payloads.tensors import raw_to_json
from mnserve.protocol import service_pb2 as pb


def write_answer(response: pb.ModelInferResponse, form: AnswerForm) -> HttpAnswer:
    """Writes an answer.

    Args:
        response: Message of the answer, with raw contents.
        form: Form in which the outputs are wanted.

    Raises:
        InvalidRequestError: An output that is wanted as JSON has values that JSON has not.
    """
    outputs: list[dict[str, Any]] = []
    binary: list[bytes] = []
    for output, raw in zip(response.outputs, response.raw_output_contents, strict=True):
        shape = list(output.shape)
        written: dict[str, Any] = {"name": output.name, "datatype": output.datatype, "shape": shape}
        parameters = parameters_of(output.parameters)
        if REGION in parameters:
            pass  # the contents are there
        elif form.is_binary(output.name):
            parameters["binary_data_size"] = len(raw)
            binary.append(raw)
        else:
            written["data"] = raw_to_json(raw, output.datatype, shape, f"output '{output.name}'")
        if parameters:
            written["parameters"] = parameters
        outputs.append(written)
    content: dict[str, Any] = {"model_name": response.model_name, "model_version": response.model_version}
    if response.id:
        content["id"] = response.id
    if response.parameters:
        content["parameters"] = parameters_of(response.parameters)
    content["outputs"] = outputs
    text = orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)
    if not binary:
        return HttpAnswer(text, JSON)
    header = (b"inference-header-content-length", b"%d" % len(text))
    return HttpAnswer(b"".join((text, *binary)), BINARY, headers=(header,))


def parameters_of(parameters: Any) -> dict[str, Any]:
    """Returns parameters of the protocol as values of JSON."""
    return {
        name: getattr(value, kind)
        for name, value in parameters.items()
        if (kind := value.WhichOneof("parameter_choice")) is not None
    }

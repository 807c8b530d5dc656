"""Bodies of requests, and what is wrong with them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from mnserve.errors import InvalidRequestError
from mnserve.http.payloads.requests import MAX_VALUES, ReadRequest, read_request
from mnserve.protocol import service_pb2 as pb

INPUT = {"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}
BINARY = {"name": "x", "datatype": "FP32", "shape": [1, 2], "parameters": {"binary_data_size": 8}}
RAW = np.array([1, 2], np.float32).tobytes()


def read(content: Any, behind: bytes = b"", json_bytes: int | None = None) -> ReadRequest:
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    if behind and json_bytes is None:
        json_bytes = len(text)
    return read_request(text + behind, json_bytes, "m", "3")


def test_json_and_binary_become_the_message_of_gRPC() -> None:
    expected = pb.ModelInferRequest(model_name="m", model_version="3", id="7")
    expected.parameters["timeout"].int64_param = 5
    expected.parameters["big"].uint64_param = 2**63
    expected.parameters["deep"].double_param = 0.5
    expected.parameters["on"].bool_param = True
    expected.parameters["who"].string_param = "me"
    tensor = expected.inputs.add(name="x", datatype="FP32", shape=[1, 2])
    tensor.parameters["note"].string_param = "n"
    expected.raw_input_contents.append(RAW)
    expected.outputs.add(name="y").parameters["classification"].int64_param = 2
    parameters = {"timeout": 5, "big": 2**63, "deep": 0.5, "on": True, "who": "me", "binary_data_output": True}
    outputs = [{"name": "y", "parameters": {"classification": 2, "binary_data": False}}]
    content: dict[str, Any] = {"id": "7", "parameters": parameters, "outputs": outputs}
    for item, behind in (
        ({**INPUT, "parameters": {"note": "n"}}, b""),
        ({**BINARY, "parameters": {"note": "n", "binary_data_size": 8}}, RAW),
    ):
        found = read({**content, "inputs": [item]}, behind)
        assert found.message == expected
        assert not found.form.is_binary("y")
        assert found.form.is_binary("z")
        assert found.images is None


def test_binary_and_json_inputs_mix_and_come_in_order() -> None:
    items = [{**BINARY, "name": "a"}, {**INPUT, "name": "b"}, {**BINARY, "name": "c"}]
    message = read({"inputs": items}, RAW + RAW[::-1]).message
    assert list(message.raw_input_contents) == [RAW, RAW, RAW[::-1]]


def test_base64_text_becomes_bytes() -> None:
    item = {"name": "x", "datatype": "BYTES", "shape": [1, 1], "data": [["/w=="]]}
    message = read({"inputs": [{**item, "parameters": {"content_type": "base64"}}]}).message
    assert list(message.raw_input_contents) == [b"\x01\x00\x00\x00\xff"]
    with pytest.raises(InvalidRequestError, match="input 'x' is no base64 text"):
        read({"inputs": [{**item, "data": ["#"], "parameters": {"content_type": "base64"}}]})


def test_null_stands_for_what_is_not_set() -> None:
    """As clients write it that send every field of a class."""
    unset = {"id": None, "parameters": None, "outputs": None}
    assert read({**unset, "inputs": [{**INPUT, "parameters": None}]}).message == read({"inputs": [INPUT]}).message
    nulls = {"timeout": None, "binary_data_output": None}
    outputs = [{"name": "y", "parameters": {"binary_data": None, "classification": None}}]
    found = read({"parameters": nulls, "inputs": [{**BINARY, "data": None}], "outputs": outputs}, RAW)
    assert found.message == read({"inputs": [BINARY], "outputs": [{"name": "y"}]}, RAW).message
    assert not found.form.is_binary("y")


def test_an_input_in_shared_memory_has_no_contents() -> None:
    item = {"name": "x", "datatype": "FP32", "shape": [1, 2], "parameters": {"shared_memory_region": "r"}}
    message = read({"inputs": [item]}).message
    assert not message.raw_input_contents
    assert message.inputs[0].parameters["shared_memory_region"].string_param == "r"
    with pytest.raises(InvalidRequestError, match="has data, and is in shared memory"):
        read({"inputs": [{**item, "data": [1, 2]}]})


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no JSON"),
        (b"{", "no JSON"),
        (b"\xff", "no JSON"),
        (b"{} {}", "no JSON"),
        (b'{"inputs": [NaN]}', "no JSON"),
        (b'{"id": "\\ud800"}', "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[]", "no object"),
        (b"null", "no object"),
        ({"inputs": {}}, "the field inputs is no list of objects"),
        ({"inputs": [1]}, "the field inputs is no list of objects"),
        ({"outputs": "y"}, "the field outputs is no list of objects"),
        ({"id": 1}, "the field id of the request is no text"),
        ({"parameters": []}, "the field parameters of the request is no object"),
        ({"parameters": {"a": [1]}}, "'a' of the request is neither text, a number"),
        ({"parameters": {"binary_data_output": 1}}, "binary_data_output is neither true nor false"),
        ({"outputs": [{"name": "y", "parameters": {"binary_data": "yes"}}]}, "binary_data is neither true nor false"),
        ({"outputs": [{"name": 1}]}, "the field name of an output is no text"),
        ({"inputs": [{**INPUT, "name": 7}]}, "the field name of an input is no text"),
        ({"inputs": [{**INPUT, "data": None}]}, "input 'x' has no data"),
        ({"inputs": [{**INPUT, "datatype": 3}]}, "the field datatype of input 'x' is no text"),
        ({"inputs": [{**INPUT, "datatype": "FP33"}]}, "datatype 'FP33', expected one of BOOL"),
        ({"inputs": [{**INPUT, "shape": 2}]}, "input 'x' has no shape"),
        ({"inputs": [{**INPUT, "shape": [1.0, 2]}]}, "input 'x' has no shape"),
        ({"inputs": [{**INPUT, "shape": [True, 2]}]}, "input 'x' has no shape"),
        ({"inputs": [{**INPUT, "shape": [-1, 2]}]}, "a negative size"),
        ({"inputs": [{**INPUT, "shape": [1] * 33}]}, "33 dimensions, expected at most 32"),
        ({"inputs": [{**INPUT, "shape": [2**63]}]}, "a size of more than 64 bits"),
        ({"inputs": [{key: INPUT[key] for key in ("name", "datatype", "shape")}]}, "input 'x' has no data"),
        ({"inputs": [BINARY]}, "binary_data_size 8, but 0 bytes of binary data are left"),
        ({"inputs": [{**BINARY, "parameters": {"binary_data_size": -1}}]}, "binary_data_size -1"),
        ({"inputs": [{**BINARY, "parameters": {"binary_data_size": "8"}}]}, "binary_data_size 8"),
        ({"inputs": [{**BINARY, "parameters": {"binary_data_size": True}}]}, "binary_data_size True"),
    ],
)
def test_what_is_no_request_is_refused_with_a_reason(content: Any, words: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        read(content)
    assert words in str(caught.value)


def test_lengths_have_to_fit() -> None:
    with pytest.raises(InvalidRequestError, match="the body has 3 bytes behind its binary tensors"):
        read({"inputs": [BINARY]}, RAW + b"abc")
    with pytest.raises(InvalidRequestError, match="Inference-Header-Content-Length is 999, but the body has"):
        read({"inputs": [BINARY]}, RAW, 999)
    with pytest.raises(InvalidRequestError, match="no JSON"):
        read({"inputs": [BINARY]}, RAW, 3)
    with pytest.raises(InvalidRequestError, match="has data, and binary_data_size; send it once"):
        read({"inputs": [{**BINARY, "data": [1, 2]}]}, RAW)


def test_a_text_that_would_fill_the_memory_is_refused_before_it_is_parsed() -> None:
    for piece in (b"1,", b"[],", b'{"a":{}},'):
        with pytest.raises(InvalidRequestError, match=f"more than {MAX_VALUES} values"):
            read(b'{"inputs":[' + piece * (MAX_VALUES // piece.count(b",") + 1) + b"1]}")

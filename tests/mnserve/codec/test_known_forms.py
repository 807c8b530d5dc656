"""Requests of known forms mean what protobuf makes of them, and answers are the bytes that it would write."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnserve.codec.answer_forms import AnswerForms
from mnserve.codec.datatypes import DATATYPES
from mnserve.codec.decoding import check_request
from mnserve.codec.encoding import encode_response
from mnserve.codec.known_forms import RequestForms
from mnserve.codec.signature import RequestSignature, TensorRule
from mnserve.codec.wire_format import varint
from mnserve.errors import InvalidRequestError
from mnserve.protocol import service_pb2 as pb


def signature(inputs: int = 1, datatype: str = "FP32") -> RequestSignature:
    rules = tuple(TensorRule(name=f"x{i}", datatype=DATATYPES[datatype], dims=(3,)) for i in range(inputs))
    outputs = (
        TensorRule(name="y", datatype=DATATYPES["FP32"], dims=(2,)),
        TensorRule(name="n", datatype=DATATYPES["INT64"], dims=()),
    )
    return RequestSignature(model="m", max_batch_size=8, inputs=rules, outputs=outputs)


def request(rows: int, inputs: int, request_id: str = "", seed: int = 0, version: str = "") -> pb.ModelInferRequest:
    message = pb.ModelInferRequest(model_name="m", model_version=version, id=request_id)
    rng = np.random.default_rng(seed)
    for index in range(inputs):
        message.inputs.add(name=f"x{index}", datatype="FP32", shape=[rows, 3])
        message.raw_input_contents.append(rng.standard_normal((rows, 3), np.float32).tobytes())
    return message


IDS = st.text(max_size=140)


@given(st.integers(1, 3), st.integers(1, 3), IDS, IDS, st.sampled_from(["", "2"]))
def test_equal_forms_give_the_tensors_and_the_id_of_the_message(
    rows: int, inputs: int, first_id: str, second_id: str, version: str
) -> None:
    rules, forms = signature(inputs), RequestForms()
    first = request(rows, inputs, first_id, version=version)
    check_request(first, rules)
    assert forms.find(first.SerializeToString()) is None
    forms.learn(first.SerializeToString(), first, rules)
    second = request(rows, inputs, second_id, seed=1, version=version)
    known = forms.find(second.SerializeToString())
    learned = len(first_id.encode()) <= 127
    found = learned and bool(first_id) == bool(second_id) and len(second_id.encode()) <= 127
    assert (known is not None) == found
    if known is not None:
        assert (known.form.model, known.form.version, known.id) == ("m", version, second_id)
        expected = check_request(second, rules).decode()
        work = known.decode()
        assert (work.rows, work.outputs, work.nbytes) == (expected.rows, expected.outputs, expected.nbytes)
        for name, array in expected.feeds.items():
            np.testing.assert_array_equal(work.feeds[name], array)


@given(st.data())
def test_a_damaged_message_is_never_taken_for_a_known_form(data: st.DataObject) -> None:
    rules, forms = signature(2), RequestForms()
    first = request(2, 2, "id")
    check_request(first, rules)
    blob = first.SerializeToString()
    forms.learn(blob, first, rules)
    place = data.draw(st.integers(0, len(blob) - 1))
    changed = bytearray(blob)
    changed[place] ^= data.draw(st.integers(1, 255))
    known = forms.find(bytes(changed))
    if known is not None:  # then it is the same message with other values, or another id
        parsed = pb.ModelInferRequest.FromString(bytes(changed))
        assert parsed.id == known.id
        for name, array in check_request(parsed, rules).decode().feeds.items() if _finite(parsed) else ():
            np.testing.assert_array_equal(known.decode().feeds[name], array)


def _finite(message: pb.ModelInferRequest) -> bool:
    return all(np.isfinite(np.frombuffer(raw, "<f4")).all() for raw in message.raw_input_contents)


@pytest.mark.parametrize("request_id", ["", "an id"])
def test_a_message_with_more_fields_is_no_form_without_them_also_when_another_form_has_its_size(
    request_id: str,
) -> None:
    rules, forms = signature(), RequestForms()
    for rows in (1, 2):
        message = request(rows, 1, request_id)
        check_request(message, rules)
        forms.learn(message.SerializeToString(), message, rules)
    message = request(1, 1, request_id)
    message.outputs.add(name="12345678")  # as long as a row with its marks
    assert len(message.SerializeToString()) == len(request(2, 1, request_id).SerializeToString())
    assert forms.find(message.SerializeToString()) is None


def test_callers_cannot_make_a_message_be_compared_with_very_many_forms() -> None:
    rules, forms = replace(signature(), max_batch_size=64), RequestForms()
    for rows in range(1, 65):
        for request_id in ("", "an id"):
            message = request(rows, 1, request_id)
            check_request(message, rules)
            padding = 2000 - len(message.SerializeToString())
            blob = b"\xa2\x06" + varint(padding) + bytes(padding) + message.SerializeToString()  # of an unknown field
            forms.learn(blob, message, rules)
            known = forms.find(blob)
            assert known is not None
            assert (known.form.layout.rows, known.id) == (rows, request_id)
    assert max(map(len, forms._heads.values())) <= 16
    assert len(forms._id_places) <= 64


def test_fields_in_another_order_are_learned_as_they_are() -> None:
    rules, forms = signature(), RequestForms()
    message = request(1, 1)
    raw = pb.ModelInferRequest(raw_input_contents=message.raw_input_contents).SerializeToString()
    rest = pb.ModelInferRequest()
    rest.CopyFrom(message)
    del rest.raw_input_contents[:]
    check_request(message, rules)
    forms.learn(raw + rest.SerializeToString(), message, rules)  # its tensors are not last
    assert forms.find(raw + rest.SerializeToString()) is None
    assert forms.find(message.SerializeToString()) is None


def test_values_that_are_not_finite_are_refused() -> None:
    rules, forms = signature(), RequestForms()
    message = request(1, 1)
    check_request(message, rules)
    forms.learn(message.SerializeToString(), message, rules)
    message.raw_input_contents[0] = np.array([0, np.nan, 0], "<f4").tobytes()
    known = forms.find(message.SerializeToString())
    assert known is not None
    with pytest.raises(InvalidRequestError, match="NaN"):
        known.decode()


def test_requests_with_numbers_in_fields_of_their_type_are_parsed_every_time() -> None:
    rules, forms = signature(), RequestForms()
    typed = pb.ModelInferRequest(model_name="m")
    typed.inputs.add(name="x0", datatype="FP32", shape=[1, 3]).contents.fp32_contents.extend([1, 2, 3])
    check_request(typed, rules)
    forms.learn(typed.SerializeToString(), typed, rules)
    assert forms.find(typed.SerializeToString()) is None


def test_requests_with_parameters_strings_or_booleans_are_parsed_every_time() -> None:
    forms = RequestForms()
    with_parameter = request(1, 1)
    with_parameter.parameters["priority"].int64_param = 1
    boolean = signature(datatype="BOOL")
    flags = pb.ModelInferRequest(model_name="m", raw_input_contents=[b"\0\1\0"])
    flags.inputs.add(name="x0", datatype="BOOL", shape=[1, 3])
    for message, rules in ((with_parameter, signature()), (flags, boolean)):
        check_request(message, rules)
        forms.learn(message.SerializeToString(), message, rules)
        assert forms.find(message.SerializeToString()) is None


@given(st.integers(0, 3), IDS, st.sampled_from([("y",), ("n", "y"), ("y", "n")]))
def test_answers_are_the_bytes_that_protobuf_writes(rows: int, request_id: str, names: tuple[str, ...]) -> None:
    rules = signature()
    forms = AnswerForms(rules, 3)
    values: dict[str, np.ndarray[Any, Any]] = {
        "y": np.arange(2 * rows, dtype=np.float32).reshape(rows, 2),
        "n": np.arange(rows),
    }
    arrays = [values[name] for name in names]
    expected = encode_response(signature=rules, version=3, request_id=request_id, names=names, arrays=arrays)
    for _ in range(2):
        assert forms.encode(request_id, names, arrays, 10_000) == expected.SerializeToString()
    size = expected.ByteSize()
    assert forms.encode(request_id, names, arrays, size - 1) is None

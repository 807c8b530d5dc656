"""Decoding of requests: accepted ones, refused ones, and the words of the refusals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mnserve.codec.datatypes import DATATYPES
from mnserve.codec.decoding import MAX_LAYOUTS, check_request, decode_request, layout_key
from mnserve.codec.encoding import encode_response
from mnserve.codec.request_layout import MAX_BYTES_ELEMENTS
from mnserve.codec.signature import RequestSignature, TensorRule
from mnserve.errors import InvalidRequestError, RequestError, UnsupportedError
from mnserve.protocol import service_pb2 as pb

RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no fault
FP32, INT32 = DATATYPES["FP32"], DATATYPES["INT32"]

SIGNATURE = RequestSignature(
    model="m",
    max_batch_size=4,
    inputs=(TensorRule(name="a", datatype=FP32, dims=(2,)), TensorRule(name="b", datatype=INT32, dims=(-1,))),
    outputs=(TensorRule(name="p", datatype=FP32, dims=(2,)), TensorRule(name="q", datatype=FP32, dims=(2,))),
)
UNBATCHED = RequestSignature(
    model="u",
    max_batch_size=0,
    inputs=(TensorRule(name="a", datatype=FP32, dims=(-1, 2)),),
    outputs=(TensorRule(name="p", datatype=FP32, dims=(-1, 2)),),
)


def request(rows: int = 2) -> pb.ModelInferRequest:
    """A correct request for SIGNATURE; ``b`` comes first, which is allowed."""
    message = pb.ModelInferRequest(model_name="m")
    message.inputs.add(name="b", datatype="INT32", shape=[rows, 3])
    message.inputs.add(name="a", datatype="FP32", shape=[rows, 2])
    message.raw_input_contents.append(np.arange(rows * 3, dtype="<i4").tobytes())
    message.raw_input_contents.append(np.arange(rows * 2, dtype="<f4").tobytes())
    return message


def test_a_correct_request_is_decoded() -> None:
    decoded = decode_request(request(), SIGNATURE)
    assert list(decoded.feeds) == ["a", "b"]
    assert decoded.feeds["a"].tolist() == [[0, 1], [2, 3]]
    assert decoded.feeds["b"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert decoded.rows == 2
    assert decoded.outputs == ("p", "q")


def test_typed_contents_are_decoded() -> None:
    message = request()
    del message.raw_input_contents[:]
    message.inputs[0].contents.int_contents.extend(range(6))
    message.inputs[1].contents.fp32_contents.extend(range(4))
    decoded = decode_request(message, SIGNATURE)
    assert decoded.feeds["a"].tolist() == [[0, 1], [2, 3]]
    assert decoded.feeds["b"].dtype == np.int32


def test_requested_outputs_come_in_their_order() -> None:
    message = request()
    message.outputs.add(name="q")
    message.outputs.add(name="p")
    assert decode_request(message, SIGNATURE).outputs == ("q", "p")
    del message.outputs[1]
    assert decode_request(message, SIGNATURE).outputs == ("q",)


def test_unknown_parameters_are_tolerated() -> None:
    message = request()
    message.parameters["triton_enable_empty_final_response"].bool_param = True
    message.parameters["anything"].double_param = 1.5
    message.inputs[0].parameters["binary_data_size"].int64_param = 3
    message.outputs.add(name="p").parameters["binary_data"].bool_param = True
    assert decode_request(message, SIGNATURE).rows == 2


def test_a_request_without_a_batch_dimension_counts_as_one_row() -> None:
    message = pb.ModelInferRequest()
    message.inputs.add(name="a", datatype="FP32", shape=[3, 2])
    message.raw_input_contents.append(b"\0" * 24)
    decoded = decode_request(message, UNBATCHED)
    assert decoded.rows == 1
    assert decoded.feeds["a"].shape == (3, 2)


def edit(change: Callable[[pb.ModelInferRequest], object]) -> pb.ModelInferRequest:
    message = request()
    change(message)
    return message


def set_shape(position: int, shape: list[int]) -> Callable[[pb.ModelInferRequest], None]:
    def change(message: pb.ModelInferRequest) -> None:
        message.inputs[position].shape[:] = shape

    return change


def set_raw(position: int, raw: bytes) -> Callable[[pb.ModelInferRequest], None]:
    def change(message: pb.ModelInferRequest) -> None:
        message.raw_input_contents[position] = raw

    return change


def set_datatype(message: pb.ModelInferRequest) -> None:
    message.inputs[1].datatype = "FP64"


def drop_input(message: pb.ModelInferRequest) -> None:
    del message.inputs[0]
    del message.raw_input_contents[0]


def rename_input(message: pb.ModelInferRequest) -> None:
    message.inputs[0].name = "zzz"


def request_twice(message: pb.ModelInferRequest) -> None:
    message.outputs.add(name="p")
    message.outputs.add(name="p")


FAULTS = {
    "missing input": (drop_input, ["'b' is missing", "expected 2", "got 1"]),
    "duplicate input": (lambda m: m.inputs.add(name="a", datatype="FP32", shape=[2, 2]), ["'a' is given twice"]),
    "unknown input": (rename_input, ["no input 'zzz'", "'a', 'b'"]),
    "unknown output": (lambda m: m.outputs.add(name="zzz"), ["no output 'zzz'", "'p', 'q'"]),
    "duplicate output": (request_twice, ["'p' is requested twice"]),
    "wrong datatype": (set_datatype, ["'FP64'", "expected FP32"]),
    "wrong rank": (set_shape(1, [2]), ["[2]", "expected [-1, 2]"]),
    "very many dimensions": (set_shape(1, [1] * 10_000), ["10000 dimensions", "expected [-1, 2]"]),
    "wrong size": (set_shape(1, [2, 3]), ["[2, 3]", "expected [-1, 2]"]),
    "negative size": (set_shape(0, [2, -1]), ["[2, -1]", "negative"]),
    "batch 0": (set_shape(1, [0, 2]), ["[0, 2]", "0 rows"]),
    "batch over the maximum": (set_shape(1, [5, 2]), ["5 rows", "at most 4"]),
    "batches differ": (set_shape(0, [1, 3]), ["1 rows", "expected 2"]),
    "shape overflow": (set_shape(0, [2, 2**62]), ["bytes"]),
    "too few bytes": (set_raw(1, b"\0" * 15), ["15 bytes", "16"]),
    "too many bytes": (set_raw(1, b"\0" * 17), ["17 bytes", "16"]),
    "raw count": (lambda m: m.raw_input_contents.append(b""), ["3 raw_input_contents", "2 inputs"]),
    "raw and typed": (lambda m: m.inputs[0].contents.int_contents.append(1), ["both"]),
    "raw and empty typed": (lambda m: m.inputs[0].contents.SetInParent(), ["both"]),
    "neither": (lambda m: m.ClearField("raw_input_contents"), ["0 elements", "expected 4"]),
    "NaN": (
        set_raw(1, np.array([1, np.nan, np.inf, 2], "<f4").tobytes()),
        ["2 values", "[0, 1]", "allow_non_finite", "'a'"],
    ),
}


@pytest.mark.parametrize(("change", "words"), FAULTS.values(), ids=list(FAULTS))
def test_faults_are_refused_by_name(change: Callable[[pb.ModelInferRequest], object], words: list[str]) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        decode_request(edit(change), SIGNATURE)
    assert all(word in str(caught.value) for word in [*words, "model 'm'"]), str(caught.value)


def test_an_empty_leading_dimension_is_refused_without_a_batch_dimension() -> None:
    message = pb.ModelInferRequest()
    message.inputs.add(name="a", datatype="FP32", shape=[0, 2])
    message.raw_input_contents.append(b"")
    with pytest.raises(InvalidRequestError, match="0 rows"):
        decode_request(message, UNBATCHED)


def test_non_finite_values_can_be_allowed() -> None:
    allowing = RequestSignature(
        model="m", max_batch_size=4, inputs=SIGNATURE.inputs, outputs=SIGNATURE.outputs, allow_non_finite=True
    )
    message = request()
    message.raw_input_contents[1] = np.array([1, np.nan, 3, 4], "<f4").tobytes()
    assert np.isnan(decode_request(message, allowing).feeds["a"][0, 1])


def test_nan_can_be_allowed_without_infinity() -> None:
    allowing = RequestSignature(
        model="m", max_batch_size=4, inputs=SIGNATURE.inputs, outputs=SIGNATURE.outputs, allow_nan=True
    )
    message = request()
    message.raw_input_contents[1] = np.array([1, np.nan, 3, 4], "<f4").tobytes()
    assert np.isnan(decode_request(message, allowing).feeds["a"][0, 1])
    message.raw_input_contents[1] = np.array([1, np.nan, -np.inf, 4], "<f4").tobytes()
    with pytest.raises(InvalidRequestError, match=r"1 values that are infinite, the first at index \[1, 0\]"):
        decode_request(message, allowing)


UNSUPPORTED: dict[str, Callable[[pb.ModelInferRequest], None]] = {
    "output in shared memory": lambda m: setattr(
        m.outputs.add(name="p").parameters["shared_memory_region"], "string_param", "r"
    ),
    "input in shared memory": lambda m: setattr(m.inputs[0].parameters["shared_memory_region"], "string_param", "r"),
    "sequence": lambda m: setattr(m.parameters["sequence_id"], "int64_param", 7),
    "named sequence": lambda m: setattr(m.parameters["sequence_id"], "string_param", "a"),
    "sequence of another type": lambda m: setattr(m.parameters["sequence_id"], "double_param", 0.5),
}
NO_SEQUENCE: dict[str, Callable[[pb.ModelInferRequest], object]] = {
    "0": lambda m: setattr(m.parameters["sequence_id"], "int64_param", 0),
    "unsigned 0": lambda m: setattr(m.parameters["sequence_id"], "uint64_param", 0),
    "empty": lambda m: setattr(m.parameters["sequence_id"], "string_param", ""),
    "flags": lambda m: [setattr(m.parameters[f"sequence_{end}"], "bool_param", False) for end in ("start", "end")],
}


@pytest.mark.parametrize("change", UNSUPPORTED.values(), ids=list(UNSUPPORTED))
def test_parameters_that_would_change_the_answer_are_refused(change: Callable[[pb.ModelInferRequest], None]) -> None:
    with pytest.raises(UnsupportedError, match=r"keeps a state|does not offer"):
        decode_request(edit(change), SIGNATURE)


@pytest.mark.parametrize("change", NO_SEQUENCE.values(), ids=list(NO_SEQUENCE))
def test_a_sequence_id_of_nothing_is_no_sequence(change: Callable[[pb.ModelInferRequest], object]) -> None:
    assert decode_request(edit(change), SIGNATURE).rows == decode_request(request(), SIGNATURE).rows


def test_refusals_shorten_long_names_of_clients() -> None:
    message = request()
    message.inputs[0].name = "x" * 100_000
    with pytest.raises(InvalidRequestError) as caught:
        decode_request(message, SIGNATURE)
    assert len(str(caught.value)) < 300


@RELAXED
@given(data=st.data())
def test_damaged_requests_are_refused_or_decoded(data: st.DataObject) -> None:
    """Bytes of a correct request are overwritten, cut out or put in; only errors of the protocol may come of it."""
    wire = bytearray(request().SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(wire) - 1))
        end = position + data.draw(st.integers(0, 2))
        wire[position:end] = data.draw(st.binary(max_size=3))
        if not wire:
            return
    try:
        message = pb.ModelInferRequest.FromString(bytes(wire))
    except DecodeError:
        return
    for signature in (SIGNATURE, UNBATCHED):
        try:
            decoded = decode_request(message, signature)
        except RequestError:
            continue
        assert 1 <= decoded.rows <= 4


def test_answers_are_raw() -> None:
    response = encode_response(
        signature=SIGNATURE,
        version=3,
        request_id="id-1",
        names=("q", "p"),
        arrays=[np.ones((2, 2), "<f4")[:, ::-1], np.zeros((2, 2), "<f4")],
    )
    assert (response.model_name, response.model_version, response.id) == ("m", "3", "id-1")
    assert [(output.name, output.datatype, list(output.shape)) for output in response.outputs] == [
        ("q", "FP32", [2, 2]),
        ("p", "FP32", [2, 2]),
    ]
    assert [len(raw) for raw in response.raw_output_contents] == [16, 16]
    assert not any(output.HasField("contents") for output in response.outputs)


@pytest.mark.parametrize("raw", [True, False])
def test_too_many_strings_are_refused(raw: bool) -> None:
    rule = TensorRule(name="x", datatype=DATATYPES["BYTES"], dims=(-1,))
    signature = RequestSignature(model="m", max_batch_size=0, inputs=(rule,), outputs=())
    for count in (MAX_BYTES_ELEMENTS, MAX_BYTES_ELEMENTS + 1):
        request = pb.ModelInferRequest(model_name="m")
        tensor = request.inputs.add(name="x", datatype="BYTES", shape=[count])
        if raw:
            request.raw_input_contents.append(bytes(4 * count))
        else:
            tensor.contents.bytes_contents.extend([b""] * count)
        if count <= MAX_BYTES_ELEMENTS:
            assert check_request(request, signature).large
        else:
            with pytest.raises(InvalidRequestError, match=r"1048577 elements of BYTES, expected at most 1048576"):
                check_request(request, signature)


@pytest.mark.parametrize(("count", "large_raw", "large_typed"), [(1000, False, False), (50_000, False, True)])
def test_large_requests_are_known_before_decoding(count: int, large_raw: bool, large_typed: bool) -> None:
    raw = pb.ModelInferRequest(model_name="m")
    raw.inputs.add(name="x", datatype="FP32", shape=[1, count])
    typed = pb.ModelInferRequest.FromString(raw.SerializeToString())
    raw.raw_input_contents.append(bytes(4 * count))
    typed.inputs[0].contents.fp32_contents.extend([0.0] * count)
    rule = TensorRule(name="x", datatype=DATATYPES["FP32"], dims=(-1,))
    signature = RequestSignature(model="m", max_batch_size=8, inputs=(rule,), outputs=())
    assert check_request(raw, signature).large is large_raw
    assert check_request(typed, signature).large is large_typed  # element by element


def test_strings_count_as_large() -> None:
    request = pb.ModelInferRequest(model_name="m", raw_input_contents=[bytes(4)])
    request.inputs.add(name="x", datatype="BYTES", shape=[1])
    rule = TensorRule(name="x", datatype=DATATYPES["BYTES"], dims=(-1,))
    assert check_request(request, RequestSignature(model="m", max_batch_size=0, inputs=(rule,), outputs=())).large


def test_requests_of_one_layout_keep_their_own_contents() -> None:
    signature = replace(SIGNATURE)
    for number in range(3):
        message = request()
        message.raw_input_contents[1] = np.full((2, 2), number, "<f4").tobytes()
        assert decode_request(message, signature).feeds["a"].tolist() == [[number] * 2] * 2
    assert len(signature.layouts) == 1
    short = request()
    short.raw_input_contents[1] = b"1234"
    with pytest.raises(InvalidRequestError, match="has 4 bytes of raw contents, expected 16"):
        decode_request(short, signature)
    infinite = request()
    infinite.raw_input_contents[1] = np.full((2, 2), np.inf, "<f4").tobytes()
    with pytest.raises(InvalidRequestError, match="4 values that are NaN or infinite"):
        decode_request(infinite, signature)
    both = request()
    both.inputs[0].contents.int_contents.append(1)
    with pytest.raises(InvalidRequestError, match="the input has both; send one of them"):
        decode_request(both, signature)


def test_a_bounded_number_of_valid_layouts_is_remembered() -> None:
    signature = replace(SIGNATURE)
    wrong = request()
    wrong.inputs[0].datatype = "FP32"
    for _ in range(2):
        with pytest.raises(InvalidRequestError, match="datatype"):
            decode_request(wrong, signature)
    parameters = request()
    parameters.parameters["sequence_id"].int64_param = 1
    with pytest.raises(UnsupportedError):
        decode_request(request_after(signature, parameters), signature)
    assert len(signature.layouts) == 1
    for size in range(MAX_LAYOUTS + 10):
        message = request()
        message.inputs[0].shape[1] = size
        check_request(message, signature)
    assert len(signature.layouts) <= MAX_LAYOUTS


def request_after(signature: RequestSignature, message: pb.ModelInferRequest) -> pb.ModelInferRequest:
    """The message, once its form without parameters is known."""
    decode_request(request(), signature)
    return message


def test_a_shape_of_millions_of_sizes_is_refused_without_a_look_at_them() -> None:
    message = request()
    message.inputs[0].shape.extend([1] * 100_000)
    assert layout_key(message, SIGNATURE) is None
    with pytest.raises(InvalidRequestError, match="100002 dimensions"):
        check_request(message, SIGNATURE)

"""Tensors on the wire: raw and typed contents of every datatype, strings, and tensors with nothing in them."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from open_inference import DTYPES, Tensor, bfloat16, numbers, outputs_of, refused, request, rows, texts

INVALID = "INVALID_ARGUMENT"
FIELDS = {
    "BOOL": "bool_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
}


def values(datatype: str) -> Any:
    """(2, 3), with the smallest and largest numbers of the type; in an order that shows how rows lie."""
    dtype: Any = DTYPES[datatype]
    if dtype.kind == "b":
        return np.array([[True, False, False], [False, True, True]])
    limits = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    return np.array([[limits.min, 0, 1], [2, 3, limits.max]], dtype=dtype)


def same(stub: Any, tensor: Tensor) -> Any:
    """Raw contents that the identity model returns for a tensor; name, datatype and shape are checked."""
    response = stub.ModelInfer(request(f"same_{tensor.datatype}", {"x": tensor}))
    (output,) = response.outputs
    assert (output.name, output.datatype, list(output.shape)) == ("y", tensor.datatype, list(tensor.shape))
    outputs_of(response)  # raw contents, one for each output
    return response.raw_output_contents[0]


@pytest.mark.parametrize("datatype", DTYPES)
def test_raw_contents_are_answered_unchanged(stub: Any, datatype: str) -> None:
    array = values(datatype)
    assert same(stub, numbers(array)) == array.tobytes()


@pytest.mark.parametrize("datatype", FIELDS)
def test_typed_contents_are_answered_raw(stub: Any, datatype: str) -> None:
    array = values(datatype)
    tensor = Tensor(datatype, array.shape, None, {FIELDS[datatype]: array.ravel().tolist()})
    assert same(stub, tensor) == array.tobytes()


def test_bfloat16_is_the_top_half_of_a_float(stub: Any) -> None:
    raw = same(stub, bfloat16(np.array([[1.0, -2.5, 0.0]])))
    assert raw == struct.pack("<3H", 0x3F80, 0xC020, 0)


@pytest.mark.parametrize("datatype", ["FP16", "BF16"])
@pytest.mark.parametrize("field", ["fp32_contents", "uint_contents", "bytes_contents", None])
def test_halves_travel_raw_only(stub: Any, datatype: str, field: str | None) -> None:
    contents = {} if field is None else {field: [b"\0\0"] if field == "bytes_contents" else [1]}
    with refused(INVALID, "'x'", datatype, "raw_input_contents"):
        stub.ModelInfer(request(f"same_{datatype}", {"x": Tensor(datatype, (1, 1), None, contents)}))


@pytest.mark.parametrize(
    ("datatype", "field", "value"),
    [
        ("INT8", "int_contents", 128),
        ("INT8", "int_contents", -129),
        ("INT16", "int_contents", 2**15),
        ("UINT8", "uint_contents", 256),
        ("UINT16", "uint_contents", 2**16),
    ],
)
def test_numbers_outside_the_datatype_are_refused(stub: Any, datatype: str, field: str, value: int) -> None:
    with refused(INVALID, "'x'", str(value), datatype):
        stub.ModelInfer(request(f"same_{datatype}", {"x": Tensor(datatype, (1, 1), None, {field: [value]})}))


@pytest.mark.parametrize(
    ("datatype", "field"),
    [("INT8", "uint_contents"), ("UINT8", "int_contents"), ("INT64", "int_contents"), ("FP64", "fp32_contents")],
)
def test_typed_contents_in_the_wrong_field_are_refused(stub: Any, datatype: str, field: str) -> None:
    with refused(INVALID, "'x'", field, FIELDS[datatype]):
        stub.ModelInfer(request(f"same_{datatype}", {"x": Tensor(datatype, (1, 1), None, {field: [1]})}))


def test_raw_and_typed_contents_together_are_refused(stub: Any) -> None:
    both = Tensor("FP32", (1, 4), bytes(16), {"fp32_contents": [0, 0, 0, 0]})
    with refused(INVALID, "'x'", "both"):
        stub.ModelInfer(request("double", {"x": both}))
    with refused(INVALID):  # one input so, the other so
        typed = Tensor("FP32", (1, 4), None, {"fp32_contents": [0, 0, 0, 0]})
        stub.ModelInfer(request("pair", {"a": numbers(rows(1)), "b": typed}))


def test_raw_contents_belong_to_the_inputs_in_the_order_of_the_request(stub: Any) -> None:
    one = request("pair", {"b": rows(1), "a": rows(2)})
    assert outputs_of(stub.ModelInfer(one))["total"].tolist() == [[3] * 4]
    with_turns = {"turns": np.zeros((2, 1), "<i8"), "x": rows(5, 6)}
    assert outputs_of(stub.ModelInfer(request("slow", with_turns)))["y"].tolist() == rows(5, 6).tolist()


def test_a_boolean_byte_above_1_is_refused(stub: Any) -> None:
    with refused(INVALID, "'x'", "BOOL"):
        stub.ModelInfer(request("same_BOOL", {"x": Tensor("BOOL", (1, 2), b"\1\2")}))


@pytest.mark.parametrize("datatype", [*DTYPES, "BF16", "BYTES"])
def test_empty_raw_contents_are_answered_empty(stub: Any, datatype: str) -> None:
    assert same(stub, Tensor(datatype, (2, 0), b"")) == b""


@pytest.mark.parametrize("datatype", [*FIELDS, "BYTES"])
def test_empty_typed_contents_are_answered_empty(stub: Any, datatype: str) -> None:
    assert same(stub, Tensor(datatype, (2, 0))) == b""


STRINGS = [b"", b"a", "\u00e9\u4e2d".encode(), b"with\0zero", b"x" * 300, b"last"]


def test_strings_are_answered_unchanged(stub: Any) -> None:
    tensor = texts(STRINGS, (2, 3))
    assert same(stub, tensor) == tensor.raw
    typed = Tensor("BYTES", (2, 3), None, {"bytes_contents": STRINGS})
    assert same(stub, typed) == tensor.raw


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        pytest.param(b"", ["0 bytes", "8"], id="nothing"),
        pytest.param(b"\1\0\0\0a", ["5 bytes", "8"], id="one too few"),
        pytest.param(b"\1\0\0\0a" * 3, ["5 bytes"], id="one too many"),
        pytest.param(b"\1\0\0\0a\1\0\0", ["length", "1"], id="ends in a length"),
        pytest.param(b"\1\0\0\0a\5\0\0\0bc", ["5 bytes", "2"], id="ends in an element"),
        pytest.param(b"\1\0\0\0a\xff\xff\xff\xffb", [str(2**32 - 1), "1"], id="an enormous length"),
        pytest.param(b"\4\0\0\0\0\0\0\0", ["1 elements", "2"], id="length counted as an element"),
    ],
)
def test_malformed_raw_strings_are_refused(stub: Any, raw: bytes, words: list[str]) -> None:
    with refused(INVALID, "'x'", *words):
        stub.ModelInfer(request("same_BYTES", {"x": Tensor("BYTES", (2, 1), raw)}))


@pytest.mark.parametrize("count", [1, 3])
def test_a_wrong_number_of_typed_strings_is_refused(stub: Any, count: int) -> None:
    with refused(INVALID, "'x'", str(count), "2"):
        contents = {"bytes_contents": [b"a"] * count}
        stub.ModelInfer(request("same_BYTES", {"x": Tensor("BYTES", (2, 1), None, contents)}))


def test_strings_that_are_not_utf_8_are_refused(stub: Any) -> None:
    """Strings of ONNX are UTF-8."""
    with refused(INVALID, "'x'", "UTF-8"):
        stub.ModelInfer(request("same_BYTES", {"x": texts([b"\xff"], (1, 1))}))

"""Tensors in JSON, and their raw contents: what one form holds, the other does."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnserve.codec.datatypes import DATATYPES
from mnserve.codec.tensors import array_to_raw, contents_to_array, raw_to_array
from mnserve.errors import InvalidRequestError
from mnserve.http.payloads.tensors import json_to_raw, raw_to_json
from mnserve.protocol import service_pb2 as pb

TEXTS = 'a0"\\/\x00\n\x7fé€😀'
IN_JSON = [name for name in DATATYPES if name not in ("FP16", "BF16")]


def through_json(value: Any) -> Any:
    return orjson.loads(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY))


@st.composite
def tensors(draw: st.DrawFn) -> tuple[str, np.ndarray[Any, Any]]:
    """A type and an array of it, as an engine would answer it."""
    name = draw(st.sampled_from(IN_JSON))
    shape = tuple(draw(st.lists(st.integers(0, 4), min_size=1, max_size=4)))
    if name == "BYTES":
        size = math.prod(shape)
        texts = draw(st.lists(st.text(TEXTS, max_size=8).map(str.encode), min_size=size, max_size=size))
        array = np.empty(size, dtype=object)
        array[:] = texts
        return name, array.reshape(shape)
    dtype = DATATYPES[name].dtype
    nbytes = math.prod(shape) * dtype.itemsize
    raw = np.frombuffer(draw(st.binary(min_size=nbytes, max_size=nbytes)), np.uint8)
    array = (raw & 1 if name == "BOOL" else raw).view(dtype).reshape(shape)
    return name, np.where(np.isinf(array), dtype.type(0.5), array) if dtype.kind == "f" else array


@given(tensors(), st.booleans())
def test_a_tensor_is_the_same_after_a_way_through_json(tensor: tuple[str, np.ndarray[Any, Any]], nested: bool) -> None:
    name, array = tensor
    raw = array_to_raw(array, DATATYPES[name])
    data = through_json(raw_to_json(raw, name, array.shape, "output 'y'"))
    if nested and array.size:
        data = np.array(data, dtype=object).reshape(array.shape).tolist()
    again = json_to_raw(data, DATATYPES[name], array.shape, "input 'x'")
    if DATATYPES[name].floating:  # every NaN becomes the same one
        read = [raw_to_array(content, DATATYPES[name], array.shape, "x") for content in (raw, again)]
        np.testing.assert_array_equal(*read)
    else:
        assert again == raw


@given(tensors())
def test_json_means_what_typed_contents_mean(tensor: tuple[str, np.ndarray[Any, Any]]) -> None:
    name, array = tensor
    datatype = DATATYPES[name]
    if datatype.floating:
        array = np.nan_to_num(array)
    contents = pb.InferTensorContents()
    assert datatype.contents is not None
    getattr(contents, datatype.contents).extend(array.ravel().tolist())
    typed = contents_to_array(contents, datatype, array.shape, "x")
    data = [item.decode() for item in array.ravel()] if name == "BYTES" else array.ravel().tolist()
    raw = json_to_raw(through_json(data), datatype, array.shape, "x")
    np.testing.assert_array_equal(raw_to_array(raw, datatype, array.shape, "x"), typed)


@pytest.mark.parametrize(
    ("name", "data", "shape", "words"),
    [
        ("FP32", [1, 2, 3], [1, 4], "has 3 elements in data, expected 4 for shape [1, 4]"),
        ("FP32", [[1, 2], [3, 4]], [1, 4], "lists of 2 elements at depth 0, expected 1"),
        ("FP32", [[1, 2, 3, 4, 5]], [1, 4], "lists of 5 elements at depth 1, expected 4"),
        ("FP32", [[1, 2], [3]], [2, 2], "lists of 1, 2 elements at depth 1, expected 2"),
        ("FP32", [[1, 2], 3, 4], [2, 2], "lists of 3 elements at depth 0"),
        ("FP32", [[1, 2], 3], [2, 2], "whose nesting is not that of shape"),
        ("FP32", [1, [2]], [2], "element 1 of its data is a list or an object"),
        ("FP32", [[[1]]], [1, 1], "element 0 of its data is a list or an object"),
        ("FP32", ["1"], [1], "element 0 of its data is text; expected numbers, and null for NaN"),
        ("FP32", [1, True], [2], "element 1 of its data is true or false"),
        ("FP32", [1e39], [1], "the value 1e+39, beyond what FP32 holds"),
        ("FP32", 1, [1], "data that are no list"),
        ("FP32", {"a": 1}, [1], "data that are no list"),
        ("INT64", [1.5], [1], "element 0 of its data is a fraction; expected whole numbers"),
        ("INT64", [None], [1], "element 0 of its data is null"),
        ("INT64", [True], [1], "element 0 of its data is true or false"),
        ("INT8", [128, -3], [2], "values from -3 to 128, expected INT8 from -128 to 127"),
        ("UINT64", [-1], [1], "values from -1 to -1, expected UINT64 from 0 to"),
        ("BOOL", [1], [1], "element 0 of its data is a number; expected true and false"),
        ("BYTES", [1], [1], "element 0 of its data is a number; expected text"),
        ("FP16", [1], [1], "travels only as a binary tensor"),
        ("BF16", [1], [1], "travels only as a binary tensor"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(name: str, data: Any, shape: list[int], words: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        json_to_raw(data, DATATYPES[name], shape, "input 'x'")
    assert str(caught.value).startswith("input 'x' ")
    assert words in str(caught.value)


def test_a_scalar_has_no_list() -> None:
    assert json_to_raw(2.5, DATATYPES["FP64"], [], "x") == np.float64(2.5).tobytes()


@pytest.mark.parametrize(
    ("raw", "name", "words"),
    [
        (np.float32("inf").tobytes(), "FP32", "infinite values, which JSON has not"),
        (b"\x01\x00\x00\x00\xff", "BYTES", "no UTF-8 text"),
        (b"\x00\x3c", "FP16", "only as a binary tensor"),
    ],
)
def test_what_json_has_not_is_refused_with_the_remedy(raw: bytes, name: str, words: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        raw_to_json(raw, name, [1], "output 'y'")
    assert words in str(caught.value)
    assert "ask for it with the parameter binary_data: true" in str(caught.value)


def test_NaN_is_null() -> None:
    raw = np.array([1, np.nan], np.float32).tobytes()
    assert through_json(raw_to_json(raw, "FP32", [2], "y")) == [1.0, None]
    assert np.isnan(np.frombuffer(json_to_raw([None], DATATYPES["FP64"], [1], "x"))).all()

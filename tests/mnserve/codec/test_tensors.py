"""Tensors of the protocol <-> arrays."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mnserve.codec.datatypes import BY_CONFIG_TYPE, DATATYPES, Datatype
from mnserve.codec.tensors import (
    array_to_raw,
    contents_to_array,
    element_count,
    first_non_finite,
    raw_to_array,
)
from mnserve.errors import InvalidRequestError
from mnserve.protocol import model_config_pb2
from mnserve.protocol.service_pb2 import InferTensorContents

Array = np.ndarray[Any, Any]

RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no fault
SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


@st.composite
def arrays(draw: st.DrawFn, datatype: Datatype) -> Array:
    shape = draw(SHAPES)
    if not datatype.is_bytes:
        return draw(hnp.arrays(datatype.dtype, shape))
    items = draw(st.lists(st.binary(max_size=6), min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array.reshape(shape)


def same(left: Array, right: Array) -> bool:
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    return left.tolist() == right.tolist() if left.dtype == object else left.tobytes() == right.tobytes()


def test_every_type_of_the_configuration_is_known() -> None:
    numbers = {value for name, value in model_config_pb2.DataType.items() if name != "TYPE_INVALID"}
    assert set(BY_CONFIG_TYPE) == numbers
    assert all(
        model_config_pb2.DataType.Name(datatype.config_type) in (f"TYPE_{name}", "TYPE_STRING")
        for name, datatype in DATATYPES.items()
    )


@pytest.mark.parametrize("datatype", DATATYPES.values(), ids=list(DATATYPES))
@RELAXED
@given(data=st.data())
def test_raw_bytes_come_back_as_they_went(datatype: Datatype, data: st.DataObject) -> None:
    array = data.draw(arrays(datatype))
    assert same(raw_to_array(array_to_raw(array, datatype), datatype, array.shape, "x"), array)


@pytest.mark.parametrize(
    "datatype", [datatype for datatype in DATATYPES.values() if datatype.contents], ids=lambda datatype: datatype.name
)
@RELAXED
@given(data=st.data())
def test_typed_contents_come_back_as_they_went(datatype: Datatype, data: st.DataObject) -> None:
    array = data.draw(arrays(datatype))
    contents = InferTensorContents()
    getattr(contents, str(datatype.contents)).extend(array.ravel().tolist())
    assert same(contents_to_array(contents, datatype, array.shape, "x"), array)


def test_raw_numbers_are_viewed_without_a_copy() -> None:
    raw = np.arange(6, dtype="<f4").tobytes()
    array = raw_to_array(raw, DATATYPES["FP32"], (2, 3), "x")
    assert not array.flags.writeable
    assert not array.flags.owndata
    assert np.shares_memory(array, np.frombuffer(raw, np.uint8))


def test_bfloat16_is_the_upper_half_of_float32() -> None:
    bits = np.array([1.0, -2.5], dtype="<f4").view("<u4") >> 16
    array = raw_to_array(bits.astype("<u2").tobytes(), DATATYPES["BF16"], (2,), "x")
    assert (array.astype("<u4") << 16).view("<f4").tolist() == [1.0, -2.5]


@pytest.mark.parametrize("datatype", DATATYPES.values(), ids=list(DATATYPES))
@RELAXED
@given(raw=st.binary(max_size=64), shape=st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 5), max_size=5))
def test_arbitrary_bytes_and_shapes_are_refused_or_fit(datatype: Datatype, raw: bytes, shape: list[int]) -> None:
    try:
        array = raw_to_array(raw, datatype, shape, "x")
    except InvalidRequestError:
        return
    assert list(array.shape) == shape
    assert array_to_raw(array, datatype) == raw


@RELAXED
@given(
    shape=st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 3), max_size=4),
    numbers=st.lists(st.integers(-(2**31), 2**31 - 1), max_size=8),
    datatype=st.sampled_from([DATATYPES[name] for name in ("INT8", "INT16", "INT32")]),
)
def test_arbitrary_typed_contents_are_refused_or_fit(shape: list[int], numbers: list[int], datatype: Datatype) -> None:
    try:
        array = contents_to_array(InferTensorContents(int_contents=numbers), datatype, shape, "x")
    except InvalidRequestError:
        return
    assert array.ravel().tolist() == numbers


@pytest.mark.parametrize(
    ("raw", "datatype", "shape", "words"),
    [
        (b"\0" * 7, "FP32", (2,), ["7 bytes", "8"]),
        (b"", "FP32", (1,), ["0 bytes", "4"]),
        (b"\0" * 4, "FP32", (2**40, 2**40), ["bytes"]),
        (b"\0" * 4, "INT64", (2**61, 2**61, 2**61), ["bytes"]),
        (b"", "FP32", (0, 2**62), ["bytes"]),
        (b"\2", "BOOL", (1,), ["neither 0 nor 1"]),
        (struct.pack("<I", 9) + b"abc", "BYTES", (1,), ["9 bytes", "3 are left"]),
        (struct.pack("<I", 2**32 - 1), "BYTES", (1,), ["4294967295", "0 are left"]),
        (struct.pack("<I", 3) + b"abc" + b"\1", "BYTES", (1,), ["1 bytes left"]),
        (struct.pack("<I", 8) + b"abcdefgh", "BYTES", (2,), ["1 elements", "expected 2"]),
        (struct.pack("<I", 1) + b"a" + b"\0\0\0", "BYTES", (2,), ["inside the length"]),
        (b"\0" * 4, "BYTES", (2**50,), ["at least"]),
    ],
)
def test_wrong_raw_contents_are_refused(raw: bytes, datatype: str, shape: tuple[int, ...], words: list[str]) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        raw_to_array(raw, DATATYPES[datatype], shape, "input 'x'")
    assert all(word in str(caught.value) for word in ["input 'x'", *words]), str(caught.value)


@pytest.mark.parametrize(
    ("contents", "datatype", "words"),
    [
        (InferTensorContents(fp32_contents=[1, 2]), "FP16", ["raw_input_contents"]),
        (InferTensorContents(), "BF16", ["raw_input_contents"]),
        (InferTensorContents(int_contents=[1, 2]), "FP32", ["int_contents", "fp32_contents"]),
        (InferTensorContents(fp32_contents=[1]), "FP32", ["1 elements", "expected 2"]),
        (InferTensorContents(int_contents=[1, 300]), "INT8", ["300", "127"]),
        (InferTensorContents(uint_contents=[1, 70000]), "UINT16", ["70000", "65535"]),
    ],
)
def test_wrong_typed_contents_are_refused(contents: InferTensorContents, datatype: str, words: list[str]) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        contents_to_array(contents, DATATYPES[datatype], (2,), "input 'x'")
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_an_empty_tensor_is_accepted() -> None:
    assert raw_to_array(b"", DATATYPES["FP32"], (2, 0), "x").shape == (2, 0)
    assert element_count((2, 0), DATATYPES["FP32"], "x") == 0
    assert element_count((), DATATYPES["FP32"], "x") == 1


@pytest.mark.parametrize("name", ["FP16", "FP32", "FP64"])
def test_non_finite_values_are_counted_and_the_first_is_found(name: str) -> None:
    datatype = DATATYPES[name]
    array = np.ones((2, 3), dtype=datatype.dtype)
    assert first_non_finite(array, datatype) is None
    array[1, 1], array[1, 2] = np.nan, np.inf
    assert first_non_finite(array, datatype) == (2, (1, 1))
    array[0, 2] = -np.inf  # inf - inf is NaN, which must not hide it
    assert first_non_finite(array, datatype) == (3, (0, 2))


@pytest.mark.parametrize("size", [6, 10_000], ids=["few", "many"])
@pytest.mark.parametrize("name", ["FP16", "FP32", "FP64"])
def test_infinite_values_are_found_among_those_that_are_missing(name: str, size: int) -> None:
    datatype = DATATYPES[name]
    array = np.full((2, size), np.nan, dtype=datatype.dtype)
    assert first_non_finite(array, datatype, allow_nan=True) is None
    array[1, 2] = -np.inf
    assert first_non_finite(array, datatype, allow_nan=True) == (1, (1, 2))


def test_a_sum_that_overflows_is_no_fault() -> None:
    assert first_non_finite(np.full(4, 3e38, dtype="<f4"), DATATYPES["FP32"]) is None
    assert first_non_finite(np.full(4, 60000, dtype="<f2"), DATATYPES["FP16"]) is None


def test_non_finite_values_of_bfloat16_are_counted() -> None:
    bits = np.array([0x3F80, 0x7F80, 0x7FC0], dtype="<u2")  # 1, inf, NaN
    assert first_non_finite(bits, DATATYPES["BF16"]) == (2, (1,))
    assert first_non_finite(bits, DATATYPES["BF16"], allow_nan=True) == (1, (1,))
    assert first_non_finite(np.array([0x7F80], dtype="<u2"), DATATYPES["UINT16"]) is None


@pytest.mark.parametrize("name", ["INT8", "FP32"])
async def test_other_threads_have_their_turn_while_typed_contents_are_read(name: str) -> None:
    """One call for a million elements would stop the event loop until it has ended."""
    datatype = DATATYPES[name]
    contents = InferTensorContents()
    getattr(contents, str(datatype.contents)).extend([1] * 4_000_000)
    reading = asyncio.ensure_future(asyncio.to_thread(contents_to_array, contents, datatype, (4_000_000,), "x"))
    turns = 0
    while not reading.done():
        await asyncio.sleep(0.001)
        turns += 1
    assert turns >= 5
    assert (await reading).sum() == 4_000_000

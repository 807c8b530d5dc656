"""Tensors side by side in memory: what was packed comes out again, and damage is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from mnserve.codec.datatypes import DATATYPES
from mnserve.codec.packed_tensors import ALIGNMENT, PackedTensors, datatype_name
from mnserve.errors import EngineRunError

Array = np.ndarray[Any, Any]
SHAPES = arrays_of.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
NUMBERS = st.sampled_from([d.dtype for name, d in DATATYPES.items() if name != "BYTES"]).flatmap(
    lambda dtype: arrays_of.arrays(dtype, SHAPES)
)
STRINGS = arrays_of.arrays(object, SHAPES, elements=st.binary(max_size=9))


def layout_of(arrays: list[Array]) -> PackedTensors:
    return PackedTensors([(datatype_name(array), array.shape) for array in arrays])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(NUMBERS, STRINGS), max_size=4))
def test_tensors_come_out_as_they_were_packed(arrays: list[Array]) -> None:
    tensors = layout_of(arrays)
    unpacked = tensors.unpack(tensors.pack(arrays))
    for array, other in zip(arrays, unpacked, strict=True):
        assert (array.dtype, array.shape) == (other.dtype, other.shape)
        if array.dtype == object:
            assert array.tolist() == other.tolist()
        else:
            assert array.tobytes() == other.tobytes()  # NaN too


@settings(max_examples=40, deadline=None)
@given(st.lists(NUMBERS, max_size=4))
def test_numbers_written_to_memory_are_views_of_it_at_aligned_places(arrays: list[Array]) -> None:
    tensors = layout_of(arrays)
    assert tensors.nbytes is not None
    memory = memoryview(bytearray(tensors.nbytes + 512))
    tensors.write(arrays, memory, 256)
    first = np.frombuffer(memory, np.uint8).ctypes.data
    for array, view in zip(arrays, tensors.view(memory.toreadonly(), 256), strict=True):
        assert array.tobytes() == view.tobytes()
        assert not view.flags.writeable
        assert not view.size or (view.ctypes.data - first) % ALIGNMENT == 0
    assert not any(memory[:256])
    assert not any(memory[256 + tensors.nbytes :])


def test_an_array_that_is_not_contiguous_is_laid_out_in_order() -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4).T
    tensors = layout_of([array])
    assert tensors.unpack(tensors.pack([array]))[0].tolist() == array.tolist()


def test_texts_travel_as_utf8_and_other_types_are_refused() -> None:
    texts = np.array(["ä", "b"])
    tensors = layout_of([texts])
    assert tensors.unpack(tensors.pack([texts]))[0].tolist() == ["ä".encode(), b"b"]
    with pytest.raises(EngineRunError, match="complex64"):
        datatype_name(np.zeros(1, np.complex64))


@pytest.mark.parametrize(
    "tensors",
    [
        [("FP31", [1])],
        [("FP32", [-1])],
        [("FP32", [1.5])],
        [("FP32", ["1"])],
        [("FP32", [2**40, 2**40])],
        [("FP32", [1] * 65)],
    ],
)
def test_layouts_that_make_no_sense_are_refused(tensors: list[tuple[str, list[int]]]) -> None:
    with pytest.raises(ValueError, match=r"makes no sense|more than"):
        PackedTensors(tensors)


@given(st.binary(max_size=80))
@settings(max_examples=80, deadline=None)
def test_damaged_payloads_are_refused_and_never_read_beyond(payload: bytes) -> None:
    for tensors in (PackedTensors([("BYTES", [2]), ("FP32", [1])]), PackedTensors([("FP32", [50])])):
        with pytest.raises(ValueError, match=r"payload|tensor"):
            tensors.unpack(payload)

"""Tensors of the console: elements are taken as they are, or refused."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from mnserve.codec.datatypes import DATATYPES
from mnserve.console.tensor_trial import _array, _output
from mnserve.errors import InvalidRequestError


@pytest.mark.parametrize(
    ("datatype", "value", "expected"),
    [
        ("BYTES", [["a\0", "é"]], [[b"a\0", "é".encode()]]),
        ("FP32", [[1, 2.5]], [[1, 2.5]]),
        ("INT64", [2**63 - 1, -(2**63)], [2**63 - 1, -(2**63)]),
        ("BOOL", [True, False], [True, False]),
        ("FP32", [], []),
        ("INT64", [2**53 + 1], [2**53 + 1]),
        ("FP16", [1, -1.5], [1, -1.5]),
        ("FP64", 3, 3),
    ],
)
def test_elements_are_taken_as_they_are(datatype: str, value: Any, expected: Any) -> None:
    array = _array("x", value, DATATYPES[datatype])
    assert array.dtype == DATATYPES[datatype].dtype
    assert array.tolist() == expected


@pytest.mark.parametrize(
    ("datatype", "value", "words"),
    [
        ("BYTES", [1, "a"], "has other values"),
        ("FP32", ["1"], "has other values"),
        ("FP32", [None], "has other values"),
        ("INT8", [1.5], "has other values"),
        ("UINT8", [256], "from 0 to 255"),
        ("FP32", [1e39], "cannot hold"),
        ("FP16", [70_000], "cannot hold"),
        ("FP32", [[1], [1, 2]], "different lengths"),
        ("FP64", [10**400], "cannot hold"),
        ("BF16", [1e39], "cannot hold"),
        ("BF16", [3.4e38], "cannot hold"),  # a float32 holds it, and rounding makes it infinite
        ("BF16", [True, "1"], "has other values"),
        ("BYTES", [["a\ud800"]], r"a text with '\\ud800', half of a character"),
    ],
)
def test_other_elements_are_refused(datatype: str, value: Any, words: str) -> None:
    with pytest.raises(InvalidRequestError, match=words):
        _array("x", value, DATATYPES[datatype])


@pytest.mark.parametrize("datatype", ["BYTES", "FP32"])
def test_a_long_text_makes_no_others_long(datatype: str) -> None:
    tracemalloc.start()
    try:
        if datatype == "BYTES":
            assert np.size(_array("x", ["a" * 10_000] + [""] * 20_000, DATATYPES[datatype])) == 20_001
        else:
            with pytest.raises(InvalidRequestError):
                _array("x", ["a" * 10_000] + [""] * 20_000, DATATYPES[datatype])
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (1.0, 1.0),
        (-1.5, -1.5),
        (0.1, 0.10009765625),
        (1 + 2**-8, 1.0),  # as near to 1 as to the next number: the even one
        (1 + 3 * 2**-8, 1 + 2**-6),
        (1 + 2**-8 + 2**-20, 1 + 2**-7),
        (3.3895e38, 3.3895313892515355e38),
        (-0.0, -0.0),
    ],
)
def test_a_half_of_a_float_is_the_nearest_one(value: float, kept: float) -> None:
    datatype = DATATYPES["BF16"]
    array = _array("x", [[value]], datatype)
    assert (array.dtype, array.shape) == (datatype.dtype, (1, 1))
    assert _output("y", array, datatype)["values"] == [kept]


@pytest.mark.parametrize(
    ("datatype", "elements", "told"),
    [
        ("INT64", [2**53 - 1, 2**53, -(2**53), 2**63 - 1], [2**53 - 1, str(2**53), str(-(2**53)), str(2**63 - 1)]),
        ("UINT64", [2**64 - 1, 3], [str(2**64 - 1), 3]),
        ("FP64", [float("nan"), float("inf"), -float("inf"), 1e22], ["nan", "inf", "-inf", 1e22]),
        ("FP16", [float("nan"), 0.5], ["nan", 0.5]),
        ("BOOL", [True, False], [True, False]),
        ("BYTES", [b"gr\xc3\xbcn"], ["grün"]),
    ],
)
def test_no_number_is_changed_on_its_way_to_the_page(datatype: str, elements: list[Any], told: list[Any]) -> None:
    array = np.array(elements, DATATYPES[datatype].dtype)
    assert _output("y", array, DATATYPES[datatype])["values"] == told

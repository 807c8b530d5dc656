"""Tensors of the console: elements are taken as they are, or refused."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from mnserve.codec.datatypes import DATATYPES
from mnserve.console.tensor_trial import _array
from mnserve.errors import InvalidRequestError


@pytest.mark.parametrize(
    ("datatype", "value", "expected"),
    [
        ("BYTES", [["a\0", "é"]], [[b"a\0", "é".encode()]]),
        ("FP32", [[1, 2.5]], [[1, 2.5]]),
        ("INT64", [2**63 - 1, -(2**63)], [2**63 - 1, -(2**63)]),
        ("BOOL", [True, False], [True, False]),
        ("FP32", [], []),
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

"""Comparison of joined rows with single ones."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from mnserve.codec.datatypes import DATATYPES
from mnserve.codec.signature import RequestSignature, TensorRule
from mnserve.models.joined_rows import difference, first_changed, values_differ


def rules(datatype: str) -> RequestSignature:
    rule = TensorRule(name="y", datatype=DATATYPES[datatype], dims=(-1,))
    return RequestSignature(model="m", max_batch_size=8, inputs=(), outputs=(rule,))


@pytest.mark.parametrize("shape", [(2, 3_000_000), (3, 2**20), (4_000_000, 1), (1_500_000, 2)])
@pytest.mark.parametrize("datatype", ["FP32", "INT64"])
def test_large_answers_are_compared_to_the_last_element_in_little_memory(shape: tuple[int, ...], datatype: str) -> None:
    expected = {"y": np.ones(shape, DATATYPES[datatype].dtype)}
    actual = {"y": expected["y"].copy()}
    tracemalloc.start()
    try:
        assert values_differ(expected, actual, rules(datatype)) is None
        assert first_changed(expected, actual) is None
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()
    actual["y"][-1, -1] = 3
    assert values_differ(expected, actual, rules(datatype)) is not None
    assert first_changed(expected, actual) == "y"


def test_the_largest_value_of_all_parts_is_the_measure() -> None:
    joined = np.zeros((2, 2**20 + 8), np.float32)
    joined[0, 0] = 1e6
    alone = [{"y": joined[:1].copy()}, {"y": joined[1:].copy()}]
    joined[1, -1] = 50.0
    assert difference(alone, {"y": joined}, rules("FP32")) is None
    joined[1, -1] = 500.0
    assert "by up to 5e+02, where the largest value is 1e+06" in str(difference(alone, {"y": joined}, rules("FP32")))
    joined[1, -1] = np.nan
    assert "NaN or infinite" in str(difference(alone, {"y": joined}, rules("FP32")))

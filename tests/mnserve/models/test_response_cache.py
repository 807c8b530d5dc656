"""Answers that are kept: only for equal requests, and only so many bytes of them."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnserve.codec.decoding import InferenceWork
from mnserve.models.response_cache import ModelResponses, ResponseCache, entry_bytes, response_key


def work(outputs: tuple[str, ...] = ("y",), **feeds: Any) -> InferenceWork:
    return InferenceWork(feeds=feeds, rows=1, outputs=outputs)


def floats(*values: float) -> np.ndarray:
    return np.array([values], "<f4")


def test_an_equal_request_gets_the_same_outputs() -> None:
    responses = ModelResponses(ResponseCache(1000))
    assert responses.find(response_key(work(x=floats(1, 2)))) is None
    responses.keep(response_key(work(x=floats(1, 2))), [floats(3)])
    found = responses.find(response_key(work(x=floats(1, 2))))
    assert found is not None
    assert found[0].tolist() == [[3]]


DIFFERENT = {
    "a value": work(x=floats(1, 3)),
    "minus zero": work(x=floats(1, -0.0)),
    "a shape": work(x=floats(1, 2).T),
    "a type": work(x=floats(1, 2).view("<i4")),
    "a name": work(z=floats(1, 2)),
    "another input": work(x=floats(1, 2), z=floats(1, 2)),
    "outputs": work(("y", "z"), x=floats(1, 2)),
    "their order": work(("z", "y"), x=floats(1, 2)),
    "text": work(x=np.array([["a", "bc"]], object)),
    "text cut elsewhere": work(x=np.array([["ab", "c"]], object)),
    "bytes": work(x=np.array([[b"a", b"bd"]], object)),
    "zero": work(x=floats(1, 0)),
    "the same": work(x=floats(1, 2)),
}


def test_requests_that_differ_in_anything_have_different_keys() -> None:
    assert len({response_key(item) for item in DIFFERENT.values()}) == len(DIFFERENT)


def test_views_with_gaps_have_the_key_of_what_they_show() -> None:
    wide = np.arange(8, dtype="<f4").reshape(2, 4)
    assert response_key(work(x=wide[:, ::2])) == response_key(work(x=wide[:, ::2].copy()))


def test_models_do_not_share_answers_and_forget_theirs_alone() -> None:
    cache = ResponseCache(1000)
    one, other = ModelResponses(cache), ModelResponses(cache)
    one.keep(b"k", [floats(1)])
    assert other.find(b"k") is None
    other.keep(b"k", [floats(2)])
    one.drop()
    assert one.find(b"k") is None
    assert other.find(b"k") is not None
    one.keep(b"late", [floats(3)])
    assert one.find(b"late") is None, "its last request was answered while it was dropped"
    assert cache.nbytes == entry_bytes([floats(2)])


def test_a_cached_answer_is_a_read_only_copy() -> None:
    responses = ModelResponses(ResponseCache(1000))
    batch = np.zeros((100, 1), "<f4")
    responses.keep(b"k", [batch[:1]])
    batch[:] = 7
    (kept,) = responses.find(b"k") or []
    assert kept.tolist() == [[0]]
    assert kept.base is None
    with pytest.raises(ValueError, match="read-only"):
        kept[:] = 1


def test_the_least_recently_used_answer_is_dropped_first() -> None:
    cache = ResponseCache(3 * entry_bytes([floats(1)]))
    responses = ModelResponses(cache)
    for key in (b"a", b"b", b"c"):
        responses.keep(key, [floats(1)])
    responses.find(b"a")
    responses.keep(b"d", [floats(1)])
    assert [responses.find(key) is not None for key in (b"a", b"b", b"c", b"d")] == [True, False, True, True]
    responses.keep(b"large", [floats(*range(1000))])
    assert responses.find(b"large") is None
    assert len(cache) == 3


@settings(deadline=None)
@given(sizes=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 30)), max_size=40))
def test_the_bytes_are_counted_and_bounded(sizes: list[tuple[int, int]]) -> None:
    cache = ResponseCache(3000)
    responses = ModelResponses(cache)
    for key, size in sizes:
        responses.keep(bytes([key]), [np.zeros(size, "<f4"), np.array([b"x" * size], object)])
        kept = [responses.find(bytes([number])) for number in range(10)]
        assert cache.nbytes == sum(entry_bytes(item) for item in kept if item is not None) <= 3000


@pytest.mark.parametrize("outputs", [[floats()], [floats(1)], [floats(1), np.array([b""], object)]])
def test_small_answers_count_with_the_memory_that_they_take(outputs: list[Any]) -> None:
    cache = ResponseCache(2**30)
    responses = ModelResponses(cache)
    tracemalloc.start()
    try:
        for number in range(3000):
            responses.keep(number.to_bytes(16), [output.copy() for output in outputs])
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < cache.nbytes < 3 * taken

"""Answers and the limit on their size."""

from __future__ import annotations

import numpy as np
import pytest

from mnserve.codec.datatypes import DATATYPES
from mnserve.codec.encoding import encode_response, is_large
from mnserve.codec.signature import RequestSignature, TensorRule
from mnserve.errors import AnswerTooLargeError
from mnserve.protocol import service_pb2 as pb

SIGNATURE = RequestSignature(
    model="m",
    max_batch_size=8,
    inputs=(),
    outputs=(
        TensorRule(name="y", datatype=DATATYPES["FP32"], dims=(-1,)),
        TensorRule(name="s", datatype=DATATYPES["BYTES"], dims=(-1,)),
    ),
)


def encode(name: str, array: np.ndarray, max_bytes: int | None, request_id: str = "") -> pb.ModelInferResponse:
    return encode_response(
        signature=SIGNATURE, version=1, request_id=request_id, names=[name], arrays=[array], max_bytes=max_bytes
    )


@pytest.mark.parametrize("request_id", ["", "i" * 100_000])
@pytest.mark.parametrize(
    ("name", "array"),
    [("y", np.ones((8, 1000), np.float32)), ("s", np.array([[b"abc"] * 1000], dtype=object))],
    ids=["numbers", "strings"],
)
def test_an_answer_of_exactly_the_limit_passes(name: str, array: np.ndarray, request_id: str) -> None:
    size = len(encode(name, array, None, request_id).SerializeToString())
    assert len(encode(name, array, size, request_id).SerializeToString()) == size
    for limit in (size - 1, size // 2, 1):
        with pytest.raises(AnswerTooLargeError, match=f"bytes, more than the limit of {limit} for one message"):
            encode(name, array, limit, request_id)


def test_large_answers_are_known_before_encoding() -> None:
    assert not is_large([np.zeros(1000, np.float32)])
    assert is_large([np.zeros(300_000, np.float32)])
    assert is_large([np.array([b"few, but of any length"], dtype=object)])
    assert is_large([np.zeros(100_000, np.float32)], {"y": 1}), "scores are sorted"
    assert not is_large([np.zeros(1000, np.float32)], {"y": 1})

"""The highest classes of an output as texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mnserve.codec.classification import class_counts, classified
from mnserve.codec.datatypes import DATATYPES
from mnserve.codec.encoding import encode_response
from mnserve.codec.shared_memory import Slice
from mnserve.codec.signature import RequestSignature, TensorRule
from mnserve.errors import InvalidRequestError
from mnserve.protocol import service_pb2 as pb


def best(scores: Any, count: int, datatype: str = "FP32", *, batched: bool = True, labels: tuple[str, ...] = ()) -> Any:
    array = np.asarray(scores, dtype=DATATYPES[datatype].dtype)
    found = classified(array, count, DATATYPES[datatype], labels=labels, batched=batched, what="output 'y'")
    return [[text.decode() for text in row] for row in found] if batched else [text.decode() for text in found]


def test_every_row_has_its_own_order() -> None:
    assert best([[0.25, 0.5, -1], [3, 1, 2]], 2) == [["0.500000:1", "0.250000:0"], ["3.000000:0", "2.000000:2"]]
    assert best([[[[1]], [[2]]]], 5) == [["2.000000:1", "1.000000:0"]]
    assert best([[1, 2], [4, 3]], 2, batched=False) == ["4.000000:2", "3.000000:3"]
    assert best(7, 2, batched=False) == ["7.000000:0"]
    assert best(np.zeros((2, 0)), 3) == [[], []]


def test_labels_are_a_third_part_where_there_are_any() -> None:
    labels = ("null", "", "zwei: größer")
    assert best([[1, 2, 3, 4]], 4, labels=labels) == [
        ["4.000000:3", "3.000000:2:zwei: größer", "2.000000:1", "1.000000:0:null"]
    ]


def test_equal_scores_come_by_index_and_nan_comes_last() -> None:
    assert best([[1, 2, 2, np.nan, -0.0, 0.0]], 6) == [
        ["2.000000:1", "2.000000:2", "1.000000:0", "-0.000000:4", "0.000000:5", "nan:3"]
    ]
    assert best([[-np.inf, np.inf]], 2) == [["inf:1", "-inf:0"]]


@pytest.mark.parametrize(
    "name", [name for name, kind in DATATYPES.items() if kind.dtype.kind in "iu" and name != "BF16"]
)
def test_integers_keep_their_limits(name: str) -> None:
    limits = np.iinfo(DATATYPES[name].dtype)
    low, high = int(limits.min), int(limits.max)
    assert best([[low, high, low + 1]], 3, name) == [[f"{high}:1", f"{low + 1}:2", f"{low}:0"]]


def test_half_precisions_are_numbers_too() -> None:
    assert best([[0.5, 2]], 1, "FP16") == [["2.000000:1"]]
    assert best([[0x3F00, 0xC000, 0x4000]], 3, "BF16") == [["2.000000:2", "0.500000:0", "-2.000000:1"]]
    assert best([[1e300, 2.5]], 2, "FP64")[0][1] == "2.500000:1"


def test_more_scores_or_texts_than_memory_should_hold_are_refused() -> None:
    assert len(best(np.zeros((1, 1_000_000)), 2)[0]) == 2
    for shape, count in (((1, 1_000_001), 1), ((32, 40_000), 40_000)):
        with pytest.raises(InvalidRequestError, match="ask for fewer, or for the output as it is"):
            best(np.zeros(shape, np.int8), count, "INT8")


def signature(datatype: str) -> RequestSignature:
    rule = TensorRule(name="y", datatype=DATATYPES[datatype], dims=(-1,))
    return RequestSignature(model="m", max_batch_size=8, inputs=(), outputs=(rule,), labels={"y": ("a", "b")})


@pytest.mark.parametrize("datatype", ["BOOL", "BYTES"])
def test_only_numbers_are_classified(datatype: str) -> None:
    message = pb.ModelInferRequest()
    message.outputs.add(name="y").parameters["classification"].int64_param = 1
    with pytest.raises(InvalidRequestError, match=f"is {datatype}, and classification needs numbers"):
        class_counts(message.outputs, signature(datatype), {})


def test_texts_have_no_place_in_shared_memory() -> None:
    message = pb.ModelInferRequest()
    message.outputs.add(name="y").parameters["classification"].uint64_param = 3
    assert class_counts(message.outputs, signature("FP32"), {}) == {"y": 3}
    with pytest.raises(InvalidRequestError, match="both classification and a place in shared memory"):
        class_counts(message.outputs, signature("FP32"), {"y": Slice(region="r", offset=0, byte_size=4)})


def test_an_answer_has_the_texts_of_the_label_file() -> None:
    answer = encode_response(
        signature=signature("INT32"),
        version=1,
        request_id="",
        names=["y"],
        arrays=[np.array([[5, 9]], np.int32)],
        classes={"y": 1},
    )
    assert (answer.outputs[0].datatype, list(answer.outputs[0].shape)) == ("BYTES", [1, 1])
    assert answer.raw_output_contents[0] == b"\x05\0\0\0009:1:b"

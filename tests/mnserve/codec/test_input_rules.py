"""Rules about several inputs: sizes that are one, rows of a request, and ranges of values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mnserve.codec.datatypes import DATATYPES
from mnserve.codec.decoding import decode_request
from mnserve.codec.input_rules import InputRules, RowLimit, SharedAxis, ValueRange
from mnserve.codec.known_forms import RequestForms
from mnserve.codec.signature import RequestSignature, TensorRule
from mnserve.errors import InvalidRequestError
from mnserve.protocol import service_pb2 as pb

SHARED = SharedAxis(name="words", places=(("a", 1), ("b", 0)))
LIMIT = RowLimit(inputs=("a", "b"), most=6)
RANGE = ValueRange(input="b", least=0, below="a")
RULES = InputRules(shared_axes=(SHARED,), row_limit=LIMIT, value_ranges=(RANGE,))
SIGNATURE = RequestSignature(
    model="m",
    max_batch_size=0,
    inputs=(
        TensorRule(name="a", datatype=DATATYPES["FP32"], dims=(-1, -1)),
        TensorRule(name="b", datatype=DATATYPES["INT64"], dims=(-1,)),
    ),
    outputs=(),
    input_rules=RULES,
)


def request(a: tuple[int, int], b: list[int]) -> pb.ModelInferRequest:
    message = pb.ModelInferRequest(model_name="m")
    for name, datatype, array in (("a", "FP32", np.zeros(a, np.float32)), ("b", "INT64", np.array(b, np.int64))):
        message.inputs.add(name=name, datatype=datatype, shape=array.shape)
        message.raw_input_contents.append(array.tobytes())
    return message


def test_a_request_that_keeps_the_rules_passes() -> None:
    assert decode_request(request((3, 3), [0, 2, 1]), SIGNATURE).feeds["b"].tolist() == [0, 2, 1]


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (
            (3, 2),
            [0, 2, 1],
            "model 'm': input 'b' has size 3 in dimension 0, but input 'a' has size 2 in dimension 1; the model file "
            "calls both 'words', so make them equal",
        ),
        (
            (3, 4),
            [0, 0, 0, 0],
            "model 'm': the request has 3 in input 'a' and 4 in input 'b', 7 rows together, expected at most 6 "
            "(mn.row_limit in config.pbtxt); send fewer, or raise the limit",
        ),
        (
            (3, 2),
            [0, -1],
            "model 'm': input 'b' has the value -1 at index [1], expected values from 0 to 2, below the rows of input "
            "'a'; correct it",
        ),
        ((1, 2), [1, 0], "has the value 1 at index [0], expected values from 0 to 0"),
    ],
)
def test_a_request_that_breaks_a_rule_is_told_value_limit_and_remedy(
    a: tuple[int, int], b: list[int], message: str
) -> None:
    with pytest.raises(InvalidRequestError) as told:
        decode_request(request(a, b), SIGNATURE)
    assert message in str(told.value)


def test_a_range_may_end_at_a_number() -> None:
    rules = InputRules(value_ranges=(ValueRange(input="b", least=-1, below=2),))
    signature = replace(SIGNATURE, input_rules=rules)
    decode_request(request((1, 1), [-1, 1]), signature)
    with pytest.raises(
        InvalidRequestError, match=r"has the value 2 at index \[0\], expected values from -1 to 1; corr"
    ):
        decode_request(request((1, 1), [2]), signature)


def test_values_are_checked_in_a_request_of_a_known_form() -> None:
    """Its shapes are known to keep the rules; its values are new."""
    forms, good, bad = RequestForms(), request((2, 2), [0, 1]), request((2, 2), [0, 2])
    decode_request(good, SIGNATURE)
    forms.learn(good.SerializeToString(), good, SIGNATURE)
    known = forms.find(bad.SerializeToString())
    assert known is not None
    with pytest.raises(InvalidRequestError, match=r"has the value 2 at index \[1\]"):
        known.decode()


def test_optional_inputs_that_are_left_out_are_not_compared() -> None:
    RULES.check_shapes("m", {"b": [3]})
    RULES.check_values("m", {"b": np.array([7])})

"""Configurations that calls bring along: taken as they are meant, or refused in a sentence."""

from __future__ import annotations

import json

import pytest
from google.protobuf import json_format
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mnserve.config_override import parse_override
from mnserve.errors import InvalidRequestError
from mnserve.protocol.model_config_pb2 import ModelConfig

FIELDS = sorted({name for field in ModelConfig.DESCRIPTOR.fields for name in (field.name, field.json_name)})
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "dims", "key", "value", "count", "x"]), inner)
    ),
    max_leaves=6,
)


def test_what_a_client_reads_back_can_be_given_again() -> None:
    config = ModelConfig(name="m", max_batch_size=4, default_model_filename="net.onnx")
    config.input.add(name="x", data_type="TYPE_FP32", dims=[2**40, -1])
    config.parameters["mn.labels"].string_value = '["a", "b"]'
    for names in (True, False):
        text = json_format.MessageToJson(config, preserving_proto_field_name=names)
        assert parse_override(text, "m") == config
    assert parse_override("{}", "m") == ModelConfig(name="m")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is no JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('"text"', "is str in JSON"),
        ('{"max_batch": 1}', 'has no field named "max_batch"'),
        ('{"max_batch_size": 4294967296}', "max_batch_size"),
        ('{"max_batch_size": 1, "max_batch_size": 2}', "max_batch_size"),
        ('{"input": [{"data_type": "FP32"}]}', "FP32"),
        ('{"name": "other"}', "names the model 'other'"),
        (json.dumps({"x" * 10_000: 1}), "has no field"),
        (json.dumps({"name": "x" * 10_000}), "make both names agree"),
    ],
)
def test_what_is_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidRequestError, match=words) as caught:
        parse_override(text, "m")
    assert str(caught.value).startswith("model 'm': the parameter 'config'")
    assert len(str(caught.value)) < 500


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=300)
@given(st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=3) | VALUES)
def test_any_json_is_a_configuration_or_refused(value: object) -> None:
    try:
        config = parse_override(json.dumps(value), "m")
    except InvalidRequestError:
        return
    assert config.name == "m"

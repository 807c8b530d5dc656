"""Configurations that calls bring along: taken as they are meant, or refused in a sentence."""

from __future__ import annotations

import json

import pytest
from google.protobuf import json_format
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mnserve.errors import InvalidRequestError
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.repository.config_override import parse_override
from mnserve.text.names import printable

FIELDS = sorted({name for field in ModelConfig.DESCRIPTOR.fields for name in (field.name, field.json_name)})
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "dims", "key", "value", "count", "x"]), inner)
    ),
    max_leaves=6,
)


def spoilt(text: str, data: st.DataObject) -> str:
    """A text with a part of it replaced by something else."""
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    return (
        text[:start] + data.draw(st.sampled_from(["", "0", "null", "[]", "{}", '"', "\\ud800", "-", ","])) + text[end:]
    )


def test_a_configuration_that_a_client_reads_can_be_sent_again() -> None:
    config = ModelConfig(name="m", max_batch_size=4, default_model_filename="net.onnx")
    config.input.add(name="x", data_type="TYPE_FP32", dims=[2**40, -1])
    config.parameters["mn.labels"].string_value = '["a", "b"]'
    for names in (True, False):
        text = json_format.MessageToJson(config, preserving_proto_field_name=names)
        assert parse_override(text, "m") == config
    assert parse_override("{}", "m") == ModelConfig(name="m")


def test_a_configuration_as_long_as_the_limit_is_read() -> None:
    assert parse_override("{}".ljust(2**18), "m") == ModelConfig(name="m")


@pytest.mark.parametrize("text", ["{}".ljust(2**18 + 1), '{"a":' * 2**18])
def test_a_configuration_that_is_too_long_is_not_parsed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("mnserve.repository.config_override.parse_json", None)
    with pytest.raises(InvalidRequestError, match=r"has \d+ characters, expected at most 262144; put") as caught:
        parse_override(text, "m")
    check_sentence(str(caught.value))


BIG = "9" * 5000
BUCKETS = '{"model_metrics": {"metric_control": [{"histogram_options": {"buckets": [%s]}}]}}'
REFUSED = [
    ("", "no JSON: expecting value at line 1, column 1; correct it there"),
    ('{"name": "m",\n "max', "no JSON: unterminated string starting at line 2, column 2; correct it there"),
    ("\ufeff{}", "no JSON: expecting value at line 1"),
    ("[" * 100_000, "nested too deeply; write it flatter"),
    ('{"a":' * 10_000, "nested too deeply; write it flatter"),
    ('"text"', "it is text; write an object"),
    ("null", "it is null; write an object"),
    ("3", "it is a number; write an object"),
    ('{"max_batch": 1}', "there is no field max_batch; take it out, or correct its name"),
    (json.dumps({"x" * 10_000: 1}), r"there is no field x{40}\.\.\.; take it out"),
    (r'{"\ud800": 1}', r"there is no field \\ud800; take it out"),
    ('{"@type": 1}', "there is no field @type"),
    ('{"max_batch_size": 4294967296}', "max_batch_size is 4294967296; write a whole number from -2147483648 to"),
    (f'{{"max_batch_size": {BIG}}}', "has 5000 digits, at most 100 are read; write a smaller one"),
    (f'{{"max_batch_size": "{BIG}"}}', r"max_batch_size is the text '9{40}\.\.\.'; write a whole number"),
    ('{"max_batch_size": 1e400}', "max_batch_size is inf; write a whole number"),
    ('{"max_batch_size": NaN}', "NaN is no number in JSON; write a finite number"),
    ('{"max_batch_size": 1.5}', "max_batch_size is 1.5; write a whole number"),
    ('{"max_batch_size": "x"}', "max_batch_size is the text 'x'; write a whole number"),
    ('{"max_batch_size": [1]}', "max_batch_size is a list; write a whole number"),
    ('{"max_batch_size": true}', "max_batch_size is true; write a whole number"),
    ('{"max_batch_size": 1, "max_batch_size": 2}', "the name 'max_batch_size' is given twice; leave one out"),
    ('{"max_batch_size": 1, "maxBatchSize": 2}', "maxBatchSize is given twice, also as max_batch_size; leave one out"),
    ('{"sequence_batching": {}, "dynamic_batching": {}}', "dynamic_batching and sequence_batching exclude each other"),
    ('{"input": 3}', "input is a number; write a list"),
    ('{"input": [3]}', r"input\[0\] is a number; write an object"),
    ('{"input": [null]}', r"input\[0\] is null; write an object"),
    ('{"input": [{"dims": [1, "a"]}]}', r"input\[0\].dims\[1\] is the text 'a'; write a whole number"),
    (
        '{"input": [{"data_type": "FP32"}]}',
        "data_type is the text 'FP32'; write one of TYPE_INVALID, TYPE_BOOL, .* more",
    ),
    ('{"input": [{"data_type": {}}]}', "data_type is an object; write one of"),
    ('{"instance_group": [{"kind": 77}]}', "kind is 77; write one of KIND_AUTO"),
    ('{"parameters": {"a": 1}}', r"parameters\[a\] is a number; write an object"),
    ('{"parameters": {"a": {"x": 1}}}', r"there is no field parameters\[a\].x"),
    ('{"parameters": {"a": {"string_value": 1}}}', "string_value is 1; write text, in quotes"),
    (r'{"parameters": {"a": {"string_value": "\ud800"}}}', "string_value has half of a surrogate pair"),
    (r'{"parameters": {"\ud800": {}}}', r"the key of parameters\[\\ud800\] has half of a surrogate pair"),
    ('{"parameters": [1]}', "parameters is a list; write an object of names and values"),
    ('{"dynamic_batching": {"priority_queue_policy": {"x": {}}}}', "the key of .*x.* is the text 'x'; write a whole"),
    (
        '{"dynamic_batching": {"priority_queue_policy": {"1": {}, "2": {}, "01": {}}}}',
        r"priority_queue_policy\[01\] is given twice, also as 1; leave one out",
    ),
    (
        BUCKETS % '"x"',
        "buckets.0. is the text 'x'; write a finite",
    ),
    (BUCKETS % "true", "buckets.0. is true; write a finite"),
    (BUCKETS % "1e999", "buckets.0. is inf; write a finite"),
    ('{"dynamic_batching": {"preserve_ordering": "yes"}}', "is the text 'yes'; write true or false, without quotes"),
    ('{"dynamic_batching": {"max_queue_delay_microseconds": -1}}', "is -1; write a whole number from 0 to"),
    ('{"name": "other"}', "names the model 'other'"),
    (json.dumps({"name": "x" * 10_000}), "make both names agree"),
    (r'{"name": "\ud800"}', "name has half of a surrogate pair"),
]
INTERNALS = (
    "'int'",
    "'dict'",
    "'list'",
    "NoneType",
    "object at 0x",
    "SystemError",
    "Error:",
    "int()",
    "_upb",
    "set_int_max",
)


@pytest.mark.parametrize(("text", "words"), REFUSED)
def test_faults_of_a_configuration_are_named(text: str, words: str) -> None:
    with pytest.raises(InvalidRequestError, match=words) as caught:
        parse_override(text, "m")
    check_sentence(str(caught.value))


def test_the_name_of_the_model_stays_on_its_line() -> None:
    with pytest.raises(InvalidRequestError, match=r"^model 'a\\nb': the parameter 'config' is no JSON"):
        parse_override("", "a\nb")


@pytest.mark.parametrize("key", ["1", "01", "1 "])
def test_keys_that_are_text_are_what_they_are(key: str) -> None:
    assert set(parse_override(json.dumps({"metric_tags": {"1": "a", key: "b"}}), "m").metric_tags) == {"1", key}


def check_sentence(said: str) -> None:
    """One line of bounded length that has a remedy, and nothing of Python or protobuf."""
    assert said.startswith("model 'm': the parameter 'config'")
    assert len(said) < 500
    assert "; " in said
    assert said == printable(said)
    assert not [word for word in INTERNALS if word in said]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=300)
@given(st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=3) | VALUES)
def test_any_json_is_a_configuration_or_refused(value: object) -> None:
    try:
        config = parse_override(json.dumps(value), "m")
    except InvalidRequestError as error:
        check_sentence(str(error))
        return
    assert config.name == "m"


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=300)
@given(
    st.text(max_size=30)
    | st.builds(spoilt, st.sampled_from([text for text, _ in REFUSED if len(text) < 200]), st.data())
)
def test_any_text_is_a_configuration_or_refused_in_a_sentence(text: str) -> None:
    try:
        assert isinstance(parse_override(text, "m"), ModelConfig)
    except InvalidRequestError as error:
        check_sentence(str(error))


@pytest.mark.parametrize(
    "text", ['{"max_batch_size": "4"}', '{"max_batch_size": 4.0}', '{"maxBatchSize": 4, "input": null}']
)
def test_other_spellings_of_messages_in_json_are_read(text: str) -> None:
    assert parse_override(text, "m") == ModelConfig(name="m", max_batch_size=4)

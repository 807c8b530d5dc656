"""Configurations: completed from the engine, and compared with it."""

from __future__ import annotations

import pytest
from google.protobuf import text_format

from mnserve.engines.base import TensorSpec
from mnserve.errors import ModelConfigError
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.repository.model_config import complete, signature

X = TensorSpec(name="x", datatype="FP32", shape=(-1, 3, -1))
Y = TensorSpec(name="y", datatype="INT64", shape=(-1,))
BOTH = 'input { name: "x" data_type: TYPE_FP32 dims: [3, 8] } output { name: "y" data_type: TYPE_INT64 dims: [] }'


def parse(text: str) -> ModelConfig:
    return text_format.Parse(f'name: "m" {text}', ModelConfig())


def filled(text: str, inputs: tuple[TensorSpec, ...] = (X,), outputs: tuple[TensorSpec, ...] = (Y,)) -> ModelConfig:
    return complete(parse(text), inputs, outputs, max_batch_size=32)


def test_an_empty_configuration_is_filled_from_the_engine() -> None:
    config = filled("")
    assert config.max_batch_size == 32
    assert (config.platform, config.backend) == ("onnxruntime_onnx", "onnxruntime")
    assert config.HasField("dynamic_batching")
    assert list(config.input[0].dims) == [3, -1]
    assert list(config.output[0].dims) == []
    rules = signature(config, (X,), (Y,))
    assert rules.full_shape(rules.inputs[0]) == [-1, 3, -1]
    assert rules.full_shape(rules.outputs[0]) == [-1]
    assert not rules.allow_non_finite


@pytest.mark.parametrize("shape", [(4, 3), (), (2,)])
def test_without_batches_shapes_are_those_of_the_file(shape: tuple[int, ...]) -> None:
    fixed = TensorSpec(name="x", datatype="FP32", shape=shape)
    config = complete(parse(""), (fixed,), (Y,), max_batch_size=0)
    assert config.max_batch_size == 0
    assert not config.HasField("dynamic_batching")
    assert tuple(config.input[0].dims) == shape
    assert signature(config, (fixed,), (Y,)).full_shape(signature(config, (fixed,), (Y,)).inputs[0]) == list(shape)


def test_settings_of_the_file_are_kept() -> None:
    config = filled(f"max_batch_size: 8 {BOTH}")
    assert config.max_batch_size == 8
    assert list(config.input[0].dims) == [3, 8]
    only_batch = filled("max_batch_size: 8")
    assert only_batch.max_batch_size == 8
    assert list(only_batch.input[0].dims) == [3, -1]
    unbatched = filled('input { name: "x" data_type: TYPE_FP32 dims: [1, 3, 8] }')
    assert unbatched.max_batch_size == 0


def test_inputs_come_in_the_order_of_the_engine() -> None:
    other = TensorSpec(name="a", datatype="BOOL", shape=(-1, 1))
    config = filled(
        'max_batch_size: 2 input { name: "a" data_type: TYPE_BOOL dims: 1 } '
        'input { name: "x" data_type: TYPE_FP32 dims: [3, 2] }',
        (X, other),
    )
    assert [rule.name for rule in signature(config, (X, other), (Y,)).inputs] == ["x", "a"]


def test_a_configuration_may_leave_outputs_out() -> None:
    extra = TensorSpec(name="z", datatype="FP32", shape=(-1, 2))
    config = filled(f"max_batch_size: 8 {BOTH}", (X,), (Y, extra))
    assert [rule.name for rule in signature(config, (X,), (Y, extra)).outputs] == ["y"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('max_batch_size: 8 input { name: "q" data_type: TYPE_FP32 dims: [3, 8] }', "input 'q'.*x"),
        ('max_batch_size: 8 input { name: "x" data_type: TYPE_FP16 dims: [3, 8] }', "FP16.*FP32"),
        ('max_batch_size: 8 input { name: "x" dims: [3, 8] }', "no data_type.*FP32"),
        ('max_batch_size: 8 input { name: "x" data_type: TYPE_FP32 dims: [4, 8] }', r"\[-1, 4, 8\].*\[-1, 3, -1\]"),
        ('max_batch_size: 8 input { name: "x" data_type: TYPE_FP32 dims: [3] }', r"\[-1, 3\].*\[-1, 3, -1\]"),
        ('max_batch_size: 8 input { name: "x" data_type: TYPE_FP32 dims: [-1, 8] }', r"\[-1, -1, 8\]"),
        ('max_batch_size: 8 input { name: "x" data_type: TYPE_FP32 dims: [3, -2] }', r"-2"),
        ('max_batch_size: 8 output { name: "q" data_type: TYPE_FP32 dims: [3, 8] }', "output 'q'.*y"),
        (f"max_batch_size: 8 {BOTH} {BOTH}", "'x' 2 times"),
        ('parameters { key: "allow_non_finite" value { string_value: "maybe" } }', "maybe"),
        ('parameters { key: "allow_nan" value { string_value: "perhaps" } }', "allow_nan is 'perhaps'"),
    ],
)
def test_a_configuration_that_contradicts_the_engine_is_refused(text: str, words: str) -> None:
    with pytest.raises(ModelConfigError, match=f"model 'm'.*{words}"):
        signature(filled(text), (X,), (Y,))


def test_a_configuration_without_an_input_of_the_engine_is_refused() -> None:
    other = TensorSpec(name="a", datatype="BOOL", shape=(-1, 1))
    with pytest.raises(ModelConfigError, match=r"input a, but config\.pbtxt only x"):
        signature(filled(f"max_batch_size: 8 {BOTH}", (X, other)), (X, other), (Y,))


def test_a_fixed_batch_cannot_be_a_batch_dimension() -> None:
    fixed = TensorSpec(name="x", datatype="FP32", shape=(1, 3, 8))
    with pytest.raises(ModelConfigError, match="set max_batch_size to 0 instead of 8"):
        signature(filled("max_batch_size: 8", (fixed,)), (fixed,), (Y,))


def test_non_finite_values_can_be_allowed() -> None:
    config = filled('parameters { key: "allow_non_finite" value { string_value: "true" } }')
    assert signature(config, (X,), (Y,)).allow_non_finite


def test_nan_can_be_allowed_without_infinity() -> None:
    config = filled('parameters { key: "allow_nan" value { string_value: "true" } }')
    rules = signature(config, (X,), (Y,))
    assert rules.allow_nan
    assert not rules.allow_non_finite


def test_sizes_that_leave_a_batch_out_need_max_batch_size() -> None:
    sizes = 'input { name: "x" data_type: TYPE_FP32 dims: [3, -1] } output { name: "y" data_type: TYPE_INT64 dims: [] }'
    with pytest.raises(ModelConfigError, match=r"set its dims to \[-1, 3, -1\], or keep them and set max_batch_size"):
        signature(filled(sizes), (X,), (Y,))
    for remedy in (sizes.replace("[3", "[-1, 3").replace("[]", "[-1]"), f"max_batch_size: 8 {sizes}"):
        assert signature(filled(remedy), (X,), (Y,)).inputs[0].name == "x"

"""Unsupported settings of config.pbtxt: refused or warned about, never ignored in silence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from google.protobuf import text_format

from mnserve.engines.base import EngineOptions
from mnserve.errors import ModelConfigError
from mnserve.models.loading import LoadOptions, load
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.repository.config_support import check_supported, ignored_settings

BOTH = 'input { name: "x" data_type: TYPE_FP32 dims: [3, 8] } output { name: "y" data_type: TYPE_INT64 dims: [] }'


def parse(text: str) -> ModelConfig:
    return text_format.Parse(f'name: "m" {text}', ModelConfig())


@pytest.mark.parametrize(
    "text",
    [
        'backend: "python"',
        'platform: "tensorrt_plan"',
        "sequence_batching { }",
        "ensemble_scheduling { }",
        "model_transaction_policy { decoupled: true }",
        "max_batch_size: -1",
        'batch_input { target_name: "n" }',
        'input { name: "x" allow_ragged_batch: true }',
        'output { name: "y" is_shape_tensor: true }',
        'cc_model_filenames { key: "8.0" value: "model.onnx" }',
        'model_operations { op_library_filename: "ops.so" }',
        'model_repository_agents { agents { name: "checksum" } }',
    ],
)
def test_unsupported_settings_that_affect_answers_are_refused(text: str) -> None:
    with pytest.raises(ModelConfigError, match=r"model 'm': config\.pbtxt asks for"):
        check_supported(parse(text))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            'backend: "python"',
            "backend 'python'; only ONNX files are served: its code is not run here; export the network",
        ),
        (
            'platform: "pytorch_libtorch"',
            "platform 'pytorch_libtorch'; only ONNX files are served: export the model with torch",
        ),
        (
            'platform: "tensorrt_plan"',
            "start the server with --providers tensorrt, put the file at 1/model.onnx, and leave",
        ),
        (
            'backend: "dali"',
            "export the model to ONNX, put the file at 1/model.onnx, and leave backend and platform out",
        ),
        ('platform: "ensemble"', "asks for an ensemble; serve its steps as models of their own"),
    ],
)
def test_models_of_other_backends_are_told_the_way_to_onnx(text: str, words: str) -> None:
    with pytest.raises(ModelConfigError) as caught:
        check_supported(parse(text))
    assert words in str(caught.value)


def test_a_supported_configuration_is_accepted() -> None:
    check_supported(parse(f'platform: "onnxruntime_onnx" backend: "onnxruntime" max_batch_size: 4 {BOTH}'))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('optimization { execution_accelerators { cpu_execution_accelerator { name: "openvino" } } }', "--providers"),
        ("optimization { cuda { graphs: true } }", "--cuda-graph-batches"),
        ("optimization { priority: PRIORITY_MAX }", "optimization.priority"),
        ("optimization { eager_batching: true }", "eager_batching"),
        ("instance_group { rate_limiter { priority: 2 } }", "rate_limiter"),
        ('instance_group { host_policy: "numa0" }', "host_policy"),
        ('instance_group { profile: "1" }', "profile"),
        (
            'parameters { key: "mn.alowed_batch_sizes" value { string_value: "[2]" } }',
            "mn.alowed_batch_sizes (it means",
        ),
        ('parameters { key: "FORCE_CPU\\n" value { string_value: "1" } }', r"parameter FORCE_CPU\n (it means nothing"),
    ],
)
def test_ignored_settings_are_named(text: str, words: str) -> None:
    check_supported(parse(text))
    (found,) = ignored_settings(parse(text))
    assert words in found


def test_a_supported_configuration_has_no_ignored_settings() -> None:
    assert (
        ignored_settings(parse(f"max_batch_size: 4 instance_group {{ count: 2 }} dynamic_batching {{ }} {BOTH}")) == []
    )


def test_the_log_says_what_is_ignored(
    repository: Path, double_model: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    double_model("m", config="max_batch_size: 4 optimization { priority: PRIORITY_MAX eager_batching: true }")
    load(repository, "m", 1, LoadOptions(engine=EngineOptions(intra_op_threads=1))).engine.close()
    assert "model 'm': ignored in config.pbtxt: optimization.priority; optimization.eager_batching" in caplog.text


def test_a_model_of_another_backend_without_an_onnx_file_is_told_its_backend(
    repository: Path, double_model: Callable[..., Path]
) -> None:
    folder = double_model("m", config='backend: "python"')
    (folder / "1" / "model.onnx").rename(folder / "1" / "model.py")
    with pytest.raises(ModelConfigError, match="backend 'python'; only ONNX files are served"):
        load(repository, "m", 1, LoadOptions())

"""Parameters of Triton's backend for ONNX: what sessions are made of them, and values that cannot be."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

from mnserve.engines import backend_parameters
from mnserve.engines.backend_parameters import with_backend_parameters
from mnserve.engines.base import EngineOptions
from mnserve.engines.providers import CUDA, ProviderOption
from mnserve.engines.session_settings import SessionSettings
from mnserve.engines.sessions import run_options
from mnserve.errors import ModelConfigError
from mnserve.models.loading import LoadedModel, LoadOptions, load
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.settings import ServeSettings

WriteModel = Callable[..., Path]
SHRINKAGE = "memory.enable_memory_arena_shrinkage"
INITIALIZERS = "session.use_device_allocator_for_initializers"
ON_CUDA = EngineOptions(providers=(CUDA, "CPUExecutionProvider"))


def asking(parameters: Mapping[str, str], **fields: Any) -> ModelConfig:
    config = ModelConfig(name="m", **fields)
    for name, value in parameters.items():
        config.parameters[name].string_value = value
    return config


def options(parameters: Mapping[str, str], server: EngineOptions | None = None, count: int = 1) -> EngineOptions:
    return with_backend_parameters(asking(parameters), server or EngineOptions(), count)


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The options of every session that is opened."""
    seen: list[Any] = []

    class Session(ort.InferenceSession):  # type: ignore[misc]
        def __init__(self, path: Path, *, sess_options: Any, **named: Any) -> None:
            seen.append(sess_options)
            super().__init__(path, sess_options=sess_options, **named)

    monkeypatch.setattr(ort, "InferenceSession", Session)
    return seen


def loaded(root: Path, parameters: Mapping[str, str], level: str = "") -> LoadedModel:
    lines = [f'parameters {{ key: "{name}" value {{ string_value: "{text}" }} }}' for name, text in parameters.items()]
    (root / "m" / "config.pbtxt").write_text("\n".join([*lines, level]))
    return load(root, "m", 1, LoadOptions(engine=EngineOptions(intra_op_threads=1)))


def test_a_session_is_made_as_the_parameters_say(
    repository: Path, double_model: WriteModel, sessions: list[Any]
) -> None:
    double_model("m")
    all_levels, modes = ort.GraphOptimizationLevel, ort.ExecutionMode
    loaded(repository, {}).engine.close()
    parameters = {"execution_mode": "1", "inter_op_thread_count": "3", "enable_mem_arena": "0", INITIALIZERS: "1"}
    model = loaded(repository, {**parameters, "enable_mem_pattern": "False"}, "optimization { graph { level: -1 } }")
    (y,) = model.engine.run({"x": np.ones((2, 4), np.float32)}, ["y"])
    assert y.tolist() == [[2.0] * 4] * 2
    model.engine.close()
    plain, asked = sessions
    assert (plain.execution_mode, asked.execution_mode) == (modes.ORT_SEQUENTIAL, modes.ORT_PARALLEL)
    assert (plain.inter_op_num_threads, asked.inter_op_num_threads) == (1, 3)
    assert (plain.enable_cpu_mem_arena, asked.enable_cpu_mem_arena) == (True, False)
    assert (plain.enable_mem_pattern, asked.enable_mem_pattern) == (True, False)
    assert asked.get_session_config_entry(INITIALIZERS) == "1"
    assert plain.graph_optimization_level == all_levels.ORT_ENABLE_ALL
    assert asked.graph_optimization_level == all_levels.ORT_ENABLE_BASIC


@pytest.mark.parametrize(("level", "name"), [(-1, "basic"), (0, "all"), (1, "extended"), (2, "none"), (7, "all")])
def test_graph_levels_are_those_of_the_backend(level: int, name: str) -> None:
    config = asking({})
    config.optimization.graph.level = level
    assert with_backend_parameters(config, EngineOptions(), 1).session == SessionSettings(graph_level=name)  # type: ignore[arg-type]


def test_memory_is_given_back_after_every_run(repository: Path, double_model: WriteModel) -> None:
    double_model("m")
    model = loaded(repository, {SHRINKAGE: "cpu:0"})
    (y,) = model.engine.run({"x": np.ones((1, 4), np.float32)}, ["y"])
    assert y.tolist() == [[2.0] * 4]
    model.engine.close()
    found = run_options(options({SHRINKAGE: "cpu:0"}), graphs=False)
    assert found is not None
    assert found.get_run_config_entry(SHRINKAGE) == "cpu:0"
    assert run_options(EngineOptions(), graphs=False) is None


@pytest.mark.parametrize(
    ("parameters", "server", "count", "threads"),
    [
        ({}, 1, 1, 1),
        ({"execution_mode": "0", "inter_op_thread_count": "4"}, 1, 1, 1),
        ({"execution_mode": "1"}, 1, 2, 4),
        ({"execution_mode": "1"}, 1, 99, 1),
        ({"execution_mode": "1", "inter_op_thread_count": "2"}, 1, 1, 2),
        ({"execution_mode": "1", "inter_op_thread_count": "2"}, 3, 1, 3),
        ({}, 3, 1, 3),
    ],
)
def test_threads_across_operators(
    parameters: Mapping[str, str], server: int, count: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend_parameters, "available_cpus", lambda: 8)
    assert options(parameters, EngineOptions(inter_op_threads=server), count).inter_op_threads == threads


def test_the_log_says_which_threads_do_not_count(caplog: pytest.LogCaptureFixture) -> None:
    options({"execution_mode": "1", "inter_op_thread_count": "2"}, EngineOptions(inter_op_threads=2))
    assert caplog.text == ""
    options({"execution_mode": "1", "inter_op_thread_count": "2"}, EngineOptions(inter_op_threads=3))
    assert "model 'm' runs with 3 threads across operators, as --inter-op-threads says" in caplog.text
    options({"inter_op_thread_count": "2"})
    assert "inter_op_thread_count has no effect in config.pbtxt without the parameter execution_mode" in caplog.text


def test_parameters_for_cuda_are_options_of_its_provider(caplog: pytest.LogCaptureFixture) -> None:
    parameters = {"cudnn_conv_algo_search": "1", "gpu_mem_limit": "4096", "arena_extend_strategy": "1"}
    found = options(parameters, ON_CUDA).provider_options
    assert {option.key: option.value for option in found if option.provider == CUDA} == {
        "cudnn_conv_algo_search": "HEURISTIC",
        "gpu_mem_limit": "4096",
        "arena_extend_strategy": "kSameAsRequested",
    }
    assert caplog.text == ""
    given = ProviderOption(provider=CUDA, key="gpu_mem_limit", value="1")
    server = EngineOptions(providers=ON_CUDA.providers, provider_options=(given,))
    assert options({"gpu_mem_limit": "4096"}, server).provider_options == (given,)
    assert "gpu_mem_limit of config.pbtxt is ignored, as --provider-options has it too" in caplog.text
    assert options({"do_copy_in_default_stream": "1"}).provider_options == ()
    assert "do_copy_in_default_stream of config.pbtxt is ignored, as it does not run on CUDA" in caplog.text


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("execution_mode", "2", "expected 0 .* or 1"),
        ("inter_op_thread_count", "-1", "a number up to 1024"),
        ("inter_op_thread_count", "1025", "a number up to 1024"),
        ("inter_op_thread_count", "٣", "a number up to 1024"),
        ("enable_mem_arena", "on", r"expected 0 \(off\) or 1 \(on\)"),
        ("enable_mem_pattern", "", r"expected 0 \(off\) or 1 \(on\)"),
        (INITIALIZERS, "yes", r"expected 0 \(off\) or 1 \(on\)"),
        (SHRINKAGE, "cpu:1", r'devices such as "cpu:0"'),
        (SHRINKAGE, "tpu:0", r'devices such as "cpu:0"'),
        (SHRINKAGE, "gpu:0", "does not run on CUDA; leave the GPU out"),
        ("cudnn_conv_algo_search", "3", "expected one of 0, 1, 2"),
        ("gpu_mem_limit", "4GB", "expected a number of bytes"),
    ],
)
def test_values_that_cannot_be_are_refused(name: str, value: str, words: str) -> None:
    with pytest.raises(ModelConfigError, match=rf"model 'm': (parameter )?{name} is '{value}'.*{words}"):
        options({name: value})


def test_an_arena_that_is_off_cannot_shrink() -> None:
    with pytest.raises(
        ModelConfigError, match="enable_mem_arena switches the arena of the CPU off; remove one of both"
    ):
        options({SHRINKAGE: "cpu:0", "enable_mem_arena": "0"})
    assert options({SHRINKAGE: "gpu:0", "enable_mem_arena": "0"}, ON_CUDA).session.arena_shrinkage == "gpu:0"


def test_options_of_the_server_reach_its_engines() -> None:
    found = ServeSettings(repository="r", global_thread_pool=True, inter_op_threads=3).engine_options
    assert (found.global_thread_pool, found.inter_op_threads) == (True, 3)
    assert not ServeSettings(repository="r").engine_options.global_thread_pool


def test_engines_can_share_their_threads(repository: Path, double_model: WriteModel) -> None:
    """In a process of its own, since the first session decides for a whole process."""
    path = double_model("m") / "1" / "model.onnx"
    code = f"""
import os
import numpy as np
from pathlib import Path
from mnserve.engines.base import EngineOptions
from mnserve.engines.onnxruntime import OnnxRuntimeEngine
path, options = Path({str(path)!r}), EngineOptions(intra_op_threads=3, global_thread_pool=True)
threads, engines = [], []
for _ in range(3):
    engines.append(OnnxRuntimeEngine(path, options))
    threads.append(len(os.listdir("/proc/self/task")))
print(threads[2] - threads[0], engines[2].run({{"x": np.ones((1, 4), np.float32)}}, ["y"])[0].tolist())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "0 [[2.0, 2.0, 2.0, 2.0]]\n", done.stderr
    assert done.stderr == ""

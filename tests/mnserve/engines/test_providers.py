"""Names and options of execution providers, and the folder that TensorRT keeps its engines in."""

from pathlib import Path
from typing import Any

import onnxruntime as ort
import pytest

from mnserve.engines import providers
from mnserve.engines.base import EngineOptions
from mnserve.engines.onnxruntime import OnnxRuntimeEngine
from mnserve.engines.providers import (
    ProviderOption,
    cache_key,
    cache_root,
    default_options,
    machine_versions,
    parse_option,
    provider_name,
)
from mnserve.errors import EngineLoadError, SettingsError
from mnserve.settings import ServeSettings


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("cuda", "CUDAExecutionProvider"),
        (" TensorRT ", "TensorrtExecutionProvider"),
        ("trt", "TensorrtExecutionProvider"),
        ("azure", "AzureExecutionProvider"),
        ("CPUExecutionProvider", "CPUExecutionProvider"),
        ("cudaexecutionprovider", "CUDAExecutionProvider"),
        ("VitisAIExecutionProvider", "VitisAIExecutionProvider"),
    ],
)
def test_short_names_become_those_of_the_runtime(text: str, name: str) -> None:
    assert provider_name(text) == name


def test_commas_separate_names_as_spaces_do() -> None:
    both = ("CUDAExecutionProvider", "CPUExecutionProvider")
    for words in (("cuda", "cpu"), ("cuda,cpu",), ("cuda, cpu",), ("cuda,", "cpu", "CUDA")):
        assert ServeSettings(repository="r", providers=words).engine_options.providers == both
    for words in ((",",), ()):
        with pytest.raises(SettingsError, match="name at least one"):
            ServeSettings(repository="r", providers=words)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("openvino", "pip uninstall onnxruntime, then pip install onnxruntime-openvino"),
        ("trt", r"then pip install '\.\[serve-gpu,tensorrt\]'"),
        ("VitisAIExecutionProvider", "install a build of ONNX Runtime that has it"),
        ("cdua", "none of the name cdua; 'cuda' may be meant"),
        ("nonsense", "none of the name nonsense; there are cpu, cuda"),
    ],
)
def test_a_missing_provider_has_a_remedy_of_its_own(double_model: Any, name: str, words: str) -> None:
    if provider_name(name) in ort.get_available_providers():
        pytest.skip(f"this build has {name}")
    with pytest.raises(EngineLoadError, match=words):
        OnnxRuntimeEngine(
            double_model() / "1" / "model.onnx", ServeSettings(repository="r", providers=(name,)).engine_options
        )


def test_options_of_the_command_line_reach_the_engine() -> None:
    options = ServeSettings(
        repository="r", providers=("cuda", "cpu"), provider_options=("cuda.a=b=c", "CUDA.device_id = 1 ")
    ).engine_options
    assert options.providers == ("CUDAExecutionProvider", "CPUExecutionProvider")
    assert options.provider_options == (
        ProviderOption(provider="CUDAExecutionProvider", key="a", value="b=c"),
        ProviderOption(provider="CUDAExecutionProvider", key="device_id", value="1"),
    )


@pytest.mark.parametrize("text", ["", "cuda", "cuda.a", "a=b", ".a=b", "cuda.=b"])
def test_an_option_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match=r"PROVIDER\.KEY=VALUE"):
        parse_option(text)


def test_an_option_that_would_be_ignored_is_refused() -> None:
    with pytest.raises(SettingsError, match="takes none and would ignore it"):
        EngineOptions(provider_options=(parse_option("cpu.use_arena=0"),))


def test_an_option_of_a_provider_that_is_not_asked_for_is_refused() -> None:
    with pytest.raises(SettingsError, match="not among the providers"):
        EngineOptions(provider_options=(parse_option("cuda.a=b"),))


def test_options_are_passed_on_over_the_defaults(monkeypatch: pytest.MonkeyPatch, double_model: Any) -> None:
    path = double_model() / "1" / "model.onnx"
    passed: list[Any] = []

    class Session(ort.InferenceSession):  # type: ignore[misc]
        def __init__(self, *fields: Any, providers: Any, **named: Any) -> None:
            passed.append(providers)
            super().__init__(*fields, providers=["CPUExecutionProvider"], **named)

    monkeypatch.setattr(ort, "InferenceSession", Session)
    monkeypatch.setattr(ort, "get_available_providers", lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"])
    options = EngineOptions(
        providers=("CUDAExecutionProvider", "CPUExecutionProvider"),
        provider_options=(parse_option("cuda.cudnn_conv_algo_search=EXHAUSTIVE"), parse_option("cuda.device_id=1")),
        allow_fallback=True,
    )
    OnnxRuntimeEngine(path, options).close()
    cuda = {"arena_extend_strategy": "kSameAsRequested", "cudnn_conv_algo_search": "EXHAUSTIVE", "device_id": "1"}
    assert passed == [[("CUDAExecutionProvider", cuda), ("CPUExecutionProvider", {})]]


def test_engines_are_kept_by_model_versions_and_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tmp_path / "m.onnx"
    model.write_bytes(b"one")
    first = cache_key(model, ["tensorrt 10", "Model: H100"])
    assert cache_key(model, ["tensorrt 10", "Model: H100"]) == first
    assert cache_key(model, ["tensorrt 11", "Model: H100"]) != first
    assert cache_key(model, ["tensorrt 10", "Model: L4"]) != first
    model.write_bytes(b"two")
    assert cache_key(model, ["tensorrt 10", "Model: H100"]) != first
    with pytest.raises(EngineLoadError, match="cannot read"):
        cache_key(tmp_path / "none", [])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_root() == tmp_path / "mnserve"
    options = default_options("TensorrtExecutionProvider", model)
    assert Path(options["trt_engine_cache_path"]).parent == tmp_path / "mnserve"
    assert options["trt_engine_cache_enable"] == options["trt_timing_cache_enable"] == "1"
    assert default_options("CPUExecutionProvider", model) == {}


def test_driver_and_gpu_models_are_part_of_the_cache_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(providers, "version_lines", lambda: ["NVRM version: 580"])
    monkeypatch.setattr(providers, "gpu_lines", lambda: ["Model: NVIDIA L4"])
    found = machine_versions()
    assert any(item.startswith("onnxruntime ") for item in found)
    assert found[-2:] == ["NVRM version: 580", "Model: NVIDIA L4"]


def test_a_cache_that_cannot_be_made_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, double_model: Any
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(ort, "get_available_providers", lambda: ["TensorrtExecutionProvider"])
    option = parse_option(f"tensorrt.trt_engine_cache_path={tmp_path / 'file' / 'below'}")
    options = EngineOptions(providers=("TensorrtExecutionProvider",), provider_options=(option,))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(EngineLoadError, match=r"^TensorrtExecutionProvider cannot keep .* give another folder"):
        OnnxRuntimeEngine(double_model() / "1" / "model.onnx", options)

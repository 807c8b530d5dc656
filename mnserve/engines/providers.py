"""Execution providers of ONNX Runtime: names, options, and the cache of TensorRT's engines."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import distributions, version
from pathlib import Path
from typing import Final

from mnserve.engines.nvidia_driver import gpu_lines, version_lines
from mnserve.errors import EngineLoadError, SettingsError

_SUFFIX: Final = "ExecutionProvider"
_SHORT: Final = {
    "cpu": "CPU",
    "cuda": "CUDA",
    "tensorrt": "Tensorrt",
    "trt": "Tensorrt",
    "nvtensorrtrtx": "NvTensorRTRTX",
    "tensorrt-rtx": "NvTensorRTRTX",
    "openvino": "OpenVINO",
    "rocm": "ROCM",
    "migraphx": "MIGraphX",
    "dml": "Dml",
    "coreml": "CoreML",
    "xnnpack": "Xnnpack",
    "dnnl": "Dnnl",
    "qnn": "QNN",
    "webgpu": "WebGpu",
    "azure": "Azure",
}
_PACKAGES: Final = {
    "CPU": "'.[serve]'",
    "CUDA": "'.[serve-gpu]'",
    "Tensorrt": "'.[serve-gpu,tensorrt]'",
    "OpenVINO": "onnxruntime-openvino",
    "ROCM": "onnxruntime-rocm",
    "MIGraphX": "onnxruntime-migraphx",
    "QNN": "onnxruntime-qnn",
    "WebGpu": "onnxruntime-webgpu",
    "Dml": "onnxruntime-directml",
}
"""What pip installs for a provider; extras in a clone of this repository."""
TENSORRT: Final = f"Tensorrt{_SUFFIX}"
"""ONNX Runtime's name of its TensorRT provider."""
CUDA: Final = f"CUDA{_SUFFIX}"
"""ONNX Runtime's name of its CUDA provider."""
DEVICE_ID: Final = "device_id"
"""Option of a provider: number of the GPU that it computes on."""
NUMBERED: Final = frozenset((CUDA, TENSORRT, f"NvTensorRTRTX{_SUFFIX}"))
"""Providers that compute on NVIDIA's GPUs, each on one of them."""


@dataclass(frozen=True, kw_only=True)
class ProviderOption:
    """Option of an execution provider.

    Attributes:
        provider: ONNX Runtime's name of the provider.
        key: Name of the option.
        value: Value of the option.
    """

    provider: str
    key: str
    value: str


def provider_name(text: str) -> str:
    """Returns ONNX Runtime's name of a provider: ``cuda`` is ``CUDAExecutionProvider``; other names stay unchanged."""
    short = text.strip().lower().removesuffix(_SUFFIX.lower())
    return f"{_SHORT[short]}{_SUFFIX}" if short in _SHORT else text.strip()


def provider_names(texts: Sequence[str]) -> tuple[str, ...]:
    """Returns ONNX Runtime's names of providers, without repetitions, in the given order; commas separate, too."""
    parts = [part for text in texts for part in text.split(",") if part.strip()]
    return tuple(dict.fromkeys(provider_name(part) for part in parts))


def remedy(missing: Sequence[str], known: Sequence[str]) -> str:
    """Suggests a remedy for providers that this build of ONNX Runtime lacks.

    Args:
        missing: ONNX Runtime's names of the providers.
        known: Names of the providers of all builds.
    """
    if unknown := [name for name in missing if name not in known]:
        matches = get_close_matches(unknown[0].removesuffix(_SUFFIX).lower(), _SHORT, n=1)
        suggestion = f"'{matches[0]}' may be meant" if matches else f"there are {', '.join(_SHORT)}"
        return f"ONNX Runtime has none of the name {unknown[0]}; {suggestion}"
    packages = [_PACKAGES.get(name.removesuffix(_SUFFIX), "") for name in missing]
    if "" in packages:
        return "install a build of ONNX Runtime that has it in place of this one, or name another provider"
    first = f"pip uninstall {' '.join(installed_builds())}, then "  # all builds install the same module
    where = " in a clone of mn-runtime" if any("'.[" in package for package in packages) else ""
    return f"{first}pip install {' '.join(dict.fromkeys(packages))}{where}; or name another provider"


def installed_builds() -> list[str]:
    """Lists the installed packages that hold ONNX Runtime itself; there should be one."""
    names = sorted({(item.metadata["Name"] or "").lower().replace("_", "-") for item in distributions()})
    return [name for name in names if name.startswith("onnxruntime") and not name.startswith("onnxruntime-ep-")]


def parse_option(text: str) -> ProviderOption:
    """Parses ``PROVIDER.KEY=VALUE`` of the command line.

    Raises:
        SettingsError: The text has another form.
    """
    name, equals, value = text.partition("=")
    provider, dot, key = name.partition(".")
    if not (equals and dot and provider.strip() and key.strip()):
        raise SettingsError(
            f"provider option {text!r} cannot be read; write PROVIDER.KEY=VALUE, such as "
            "cuda.cudnn_conv_algo_search=HEURISTIC"
        )
    return ProviderOption(provider=provider_name(provider), key=key.strip(), value=value.strip())


def default_options(provider: str, model: Path, device: int | None = None) -> Mapping[str, str]:
    """Returns the default options of a provider.

    TensorRT keeps its built engines and measured timings, since a build takes minutes. CUDA extends its memory by the
    requested size instead of doubling it. It selects a convolution algorithm by heuristics instead of trying all of
    them on every new batch size.

    Args:
        provider: ONNX Runtime's name of the provider.
        model: The model file.
        device: GPU of this process, where each has its own; the processes would write the same files.
    """
    chosen = {} if device is None or provider not in NUMBERED else {DEVICE_ID: str(device)}
    if provider == TENSORRT:
        folder = cache_root() / cache_key(model, machine_versions())
        cache = str(folder if device is None else folder / f"gpu{device}")
        return {
            **chosen,
            "trt_engine_cache_enable": "1",
            "trt_engine_cache_path": cache,
            "trt_timing_cache_enable": "1",
            "trt_timing_cache_path": cache,
        }
    if provider == CUDA:
        return {**chosen, "arena_extend_strategy": "kSameAsRequested", "cudnn_conv_algo_search": "HEURISTIC"}
    return chosen


def cache_key(model: Path, versions: Sequence[str]) -> str:
    """Returns the folder name for engines built from a model; another file, runtime or GPU has another name.

    Args:
        model: The model file.
        versions: Versions of everything that the engines depend on.

    Raises:
        EngineLoadError: The file cannot be read.
    """
    digest = hashlib.sha256()
    try:
        with model.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    except OSError as error:
        raise EngineLoadError(f"cannot read {model}: {error.strerror}") from error
    for entry in versions:
        digest.update(f"\0{entry}".encode())
    return digest.hexdigest()[:32]


def machine_versions() -> list[str]:
    """Lists the versions that an engine of TensorRT depends on besides the model: libraries, driver and GPUs."""
    names = sorted(
        name
        for distribution in distributions()
        if (name := (distribution.metadata["Name"] or "").lower()).startswith(("onnxruntime", "tensorrt"))
    )
    # Of a GPU only its model counts; two GPUs of one model share their engines.
    return [*(f"{name} {version(name)}" for name in dict.fromkeys(names)), *version_lines(), *gpu_lines()]


def cache_root() -> Path:
    """Returns the folder of caches: ``$XDG_CACHE_HOME/mnserve``, by default ``~/.cache/mnserve``."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(home) if home.startswith("/") else Path.home() / ".cache") / "mnserve"

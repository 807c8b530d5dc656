"""Libraries of execution providers: loaded from the folders of their wheels, and those that are missing.

Wheels of CUDA, cuDNN and TensorRT keep their libraries in folders that no loader searches.
"""

from __future__ import annotations

import contextlib
import io
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from mnserve.engines.providers import CUDA, TENSORRT
from mnserve.engines.runtime import onnxruntime as ort
from mnserve.engines.shared_library import linkage, load

_FILES: Final = {
    CUDA: "cuda",
    TENSORRT: "tensorrt",
    "NvTensorRTRTXExecutionProvider": "nv_tensorrt_rtx",
    "OpenVINOExecutionProvider": "openvino",
    "MIGraphXExecutionProvider": "migraphx",
    "ROCMExecutionProvider": "rocm",
    "DnnlExecutionProvider": "dnnl",
    "QNNExecutionProvider": "qnn",
}
_REMEDIES: Final = (
    (("libcuda.so", "libnvidia-"), "install NVIDIA's driver, or let the container see the GPU (docker run --gpus all)"),
    (("libnvinfer", "libnvonnxparser"), "pip install '.[tensorrt]' in a clone of mn-runtime"),
    (("libcu", "libnvrtc", "libnvJitLink"), "pip install '.[serve-gpu]' in a clone of mn-runtime"),
)
_LOCK: Final = threading.Lock()


@dataclass(frozen=True, kw_only=True)
class MissingLibrary:
    """Library that a provider lacks.

    Attributes:
        library: Its name, or the loader's sentence about a library that is there and cannot be loaded.
        remedy: Command or step that installs it.
    """

    library: str
    remedy: str


def preload(providers: Sequence[str]) -> None:
    """Loads the libraries of CUDA, cuDNN and TensorRT from the folders of their wheels, once.

    Args:
        providers: ONNX Runtime's names of the providers that a session will have.
    """
    with _LOCK:
        for provider in providers:
            if provider in (CUDA, TENSORRT) and provider in ort.get_available_providers():
                _preload(provider)


def missing_libraries(provider: str) -> tuple[MissingLibrary, ...]:
    """Lists the libraries that a provider of this build is linked to, or loads later, and that cannot be loaded here.

    Args:
        provider: ONNX Runtime's name of the provider.
    """
    file = _provider_file(provider)
    if file is None:
        return ()
    preload((provider,))
    known = linkage(file)
    folders = [*known.folders, *_wheel_folders()]
    linked = (*known.needed, *_loaded_later(provider, known.needed))
    names = [item for name in linked for item in load(name, folders)]
    return tuple(MissingLibrary(library=name, remedy=_remedy(name)) for name in dict.fromkeys(names))


def explain(providers: Sequence[str]) -> str:
    """Explains in a clause why providers of this build did not start."""
    return "; ".join(_clause(provider, missing_libraries(provider)) for provider in providers)


def _clause(provider: str, lacks: Sequence[MissingLibrary]) -> str:
    if not lacks:
        return f"the libraries of {provider} are there, but it finds no device"
    names = ", ".join(item.library for item in lacks)
    return f"{provider} lacks {names} ({', '.join(dict.fromkeys(item.remedy for item in lacks))})"


@cache
def _preload(provider: str) -> None:
    # ONNX Runtime prints what it does not find. It belongs to no output of ours, and missing_libraries tells more.
    with contextlib.redirect_stdout(io.StringIO()):
        ort.preload_dlls()
    file = _provider_file(provider)
    if file is not None:
        for name in linkage(file).needed:
            load(name, _wheel_folders())


def _provider_file(provider: str) -> Path | None:
    """Returns the library that holds a provider; None for one inside ONNX Runtime itself."""
    file = Path(ort.__file__).parent / "capi" / f"libonnxruntime_providers_{_FILES.get(provider, '')}.so"
    return file if file.is_file() else None


def _wheel_folders() -> list[Path]:
    """Lists the folders of wheels that hold libraries of NVIDIA."""
    folders = [folder for place in _places("nvidia") for folder in sorted(place.glob("*/lib"))]
    return [*folders, *_places("tensorrt_libs")]


def _places(package: str) -> list[Path]:
    spec = find_spec(package)
    return [Path(place) for place in (spec and spec.submodule_search_locations) or ()]


def _loaded_later(provider: str, needed: Sequence[str]) -> tuple[str, ...]:
    """Names the libraries that a provider opens by itself when an operator asks for them."""
    if provider == TENSORRT:
        return ("libcuda.so.1",)  # by the runtime of CUDA
    if provider != CUDA:
        return ()
    major = next((int(name.rsplit(".", 1)[1]) for name in needed if name.startswith("libcudart.so.")), 12)
    return ("libcudnn.so.9", f"libcufft.so.{11 if major < 13 else 12}", f"libnvrtc.so.{major}")


def _remedy(library: str) -> str:
    for prefixes, remedy in _REMEDIES:
        if library.rsplit("/", 1)[-1].startswith(prefixes):
            return remedy
    return "install the package of the operating system that has it"

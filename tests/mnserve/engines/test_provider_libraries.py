"""Libraries of execution providers: found in the folders of wheels, and named where they are missing.

A library of ONNX Runtime stands in for that of CUDA's provider, with another name in place of one that it is linked to.
"""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mnserve.engines import provider_libraries
from mnserve.engines.base import EngineOptions
from mnserve.engines.onnxruntime import OnnxRuntimeEngine
from mnserve.engines.provider_libraries import missing_libraries, preload
from mnserve.engines.providers import CUDA, TENSORRT
from mnserve.engines.runtime import onnxruntime as ort
from mnserve.engines.sessions import runs_on_cpus_alone
from mnserve.engines.shared_library import linkage, load
from mnserve.errors import EngineLoadError

_LINKED = b"libstdc++.so.6"
_REAL = Path(ort.__file__).parent / "capi" / "libonnxruntime_providers_shared.so"


def library(file: Path, linked_to: bytes = _LINKED) -> Path:
    """Writes a library that can be loaded, unless what it is linked to is missing."""
    file.parent.mkdir(parents=True, exist_ok=True)
    content = _REAL.read_bytes().replace(_LINKED, linked_to.ljust(len(_LINKED), b"\0"))
    name = _REAL.name.encode()  # the loader knows a library by the name in it
    file.write_bytes(content.replace(name, file.name.encode().ljust(len(name), b"\0")))
    return file


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Folder of a build of ONNX Runtime whose CUDA provider lacks the driver."""
    library(tmp_path / "ort" / "capi" / "libonnxruntime_providers_cuda.so", b"libcuda.so.1")
    monkeypatch.setattr(ort, "__file__", str(tmp_path / "ort" / "__init__.py"))
    provider_libraries._preload.cache_clear()
    return tmp_path / "ort"


def test_the_linkage_of_a_library_is_read(tmp_path: Path) -> None:
    known = linkage(library(tmp_path / "a.so", b"libcuda.so.1"))
    assert {"libcuda.so.1", "libc.so.6"} <= set(known.needed)
    (tmp_path / "script.so").write_text("INPUT(-lc)")
    assert linkage(tmp_path / "script.so").needed == ()
    (tmp_path / "cut.so").write_bytes((tmp_path / "a.so").read_bytes()[:40])
    with pytest.raises(OSError, match="ends at byte 40"):
        linkage(tmp_path / "cut.so")


def test_what_a_library_lacks_is_found_through_the_libraries_between(tmp_path: Path) -> None:
    library(tmp_path / "libouter.so", b"libinner.so")
    assert load("libouter.so", [tmp_path]) == ["libinner.so"]
    library(tmp_path / "libinner.so", b"libinnermost.1")
    assert load("libouter.so", [tmp_path]) == ["libinnermost.1"]
    library(tmp_path / "libinnermost.1")
    assert load("libinner.so", [tmp_path]) == []
    (tmp_path / "libcut.so").write_bytes(b"no library")
    assert "libcut.so" in load("libcut.so", [tmp_path])[0]


def test_missing_libraries_of_a_provider_come_with_their_remedies(build: Path) -> None:
    found = {item.library: item.remedy for item in missing_libraries(CUDA)}
    assert found["libcuda.so.1"].startswith("install NVIDIA's driver")
    assert found["libcudnn.so.9"] == found["libcufft.so.11"] == "pip install '.[serve-gpu]' in a clone of mn-runtime"
    assert missing_libraries("CPUExecutionProvider") == missing_libraries(TENSORRT) == ()


def test_libraries_in_the_folders_of_wheels_are_not_missing(
    build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("cudnn/lib/libcudnn.so.9", "cu12/lib/libcufft.so.11", "cu12/lib/libnvrtc.so.12"):
        library(tmp_path / "site" / "nvidia" / name)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])
    importlib.invalidate_caches()
    assert [item.library for item in missing_libraries(CUDA)] == ["libcuda.so.1"]


def test_libraries_are_loaded_once_and_only_for_a_provider_of_the_build(
    build: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    calls: list[Any] = []

    def preload_dlls() -> None:
        calls.append(None)
        print("Failed to load libcublas.so.13")

    monkeypatch.setattr(ort, "preload_dlls", preload_dlls)
    preload(("CUDAExecutionProvider", "CPUExecutionProvider"))
    assert calls == []
    monkeypatch.setattr(ort, "get_available_providers", lambda: [CUDA, "CPUExecutionProvider"])
    preload(("CPUExecutionProvider",))
    assert calls == []
    preload((CUDA,))
    preload((CUDA,))
    assert len(calls) == 1
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("fallback", [False, True])
def test_a_provider_without_its_libraries_is_explained_or_left_out(
    build: Path, double_model: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, fallback: bool
) -> None:
    """As TensorRT does, CUDA's stand-in refuses the whole session."""
    session = ort.InferenceSession

    def refuse(path: Path, *, providers: Any, **named: Any) -> Any:
        if providers[0][0] == CUDA:
            raise RuntimeError("Please install")
        return session(path, providers=providers, **named)

    monkeypatch.setattr(ort, "get_available_providers", lambda: [CUDA, "CPUExecutionProvider"])
    monkeypatch.setattr(ort, "InferenceSession", refuse)
    file = double_model() / "1" / "model.onnx"
    options = EngineOptions(providers=(CUDA, "CPUExecutionProvider"), allow_fallback=fallback)
    if fallback:
        assert OnnxRuntimeEngine(file, options).providers == ("CPUExecutionProvider",)
        assert runs_on_cpus_alone(options), "the file for CPUs suits"
    else:
        with pytest.raises(EngineLoadError, match=r"Please install; CUDA.* lacks libcuda.so.1 .*NVIDIA's driver"):
            OnnxRuntimeEngine(file, options)

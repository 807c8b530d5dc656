"""Execution providers: which of them compute here, and what the others lack."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import numpy as np

from mnserve.checking.native_errors import native_errors
from mnserve.checking.report import ProviderReport
from mnserve.engines.base import EngineOptions
from mnserve.engines.onnxruntime import OnnxRuntimeEngine
from mnserve.engines.provider_libraries import missing_libraries
from mnserve.engines.providers import TENSORRT, ProviderOption, remedy
from mnserve.engines.runtime import onnxruntime as ort
from mnserve.errors import EngineLoadError, EngineRunError

PROBE_MODEL: Final = bytes.fromhex(
    "08083a4b0a0e0a01780a017812017922034d756c120570726f62655a180a017812130a110801120d0a07120562617463680a"
    "02080462180a017912130a110801120d0a07120562617463680a02080442040a001011"
)
"""ONNX file of the product ``y`` of ``x`` with itself, both FP32 [batch, 4]."""
_NO_CACHES: Final = {
    "trt_engine_cache_enable": "0",
    "trt_engine_cache_path": ".",
    "trt_timing_cache_enable": "0",
    "trt_timing_cache_path": ".",
}
_REMOTE: Final = "AzureExecutionProvider"  # computes no operator of an ordinary model


def check_providers(options: EngineOptions) -> tuple[ProviderReport, ...]:
    """Starts each provider of this build with a tiny model, and looks for those that were asked for.

    Args:
        options: Options of the engines that a server would have.
    """
    available = [name for name in ort.get_available_providers() if name != _REMOTE or name in options.providers]
    return tuple(_check(name, options) for name in dict.fromkeys((*options.providers, *available)))


def _check(name: str, options: EngineOptions) -> ProviderReport:
    available = ort.get_available_providers()
    if name not in available:
        reason = f"this build of ONNX Runtime has {', '.join(available)}; {remedy([name], ort.get_all_providers())}"
        return ProviderReport(name=name, starts=False, reason=reason)
    missing = missing_libraries(name)
    if missing:
        reason = f"it lacks {', '.join(item.library for item in missing)}"
        return ProviderReport(name=name, starts=False, missing=missing, reason=reason)
    with native_errors() as causes:
        fault = _run_probe(name, options)
    return ProviderReport(
        name=name, starts=not fault, reason=f"{fault} ({'; '.join(causes)})" if fault and causes else fault
    )


def _run_probe(name: str, options: EngineOptions) -> str:
    """Runs the tiny model once; the reason where the provider does not start or does not compute."""
    given = tuple(option for option in options.provider_options if option.provider == name)
    if name == TENSORRT:  # its caches are for models
        given = (*given, *(ProviderOption(provider=name, key=key, value=value) for key, value in _NO_CACHES.items()))
    with open(os.memfd_create("probe"), "wb") as stream:  # a container may have no folder that can be written to
        stream.write(PROBE_MODEL)
        stream.flush()
        file = Path(f"/proc/self/fd/{stream.fileno()}")
        try:
            engine = OnnxRuntimeEngine(
                file, EngineOptions(providers=(name,), provider_options=given, intra_op_threads=1)
            )
        except EngineLoadError as error:
            return str(error).replace(f" for {file}", "").replace(str(file), "a tiny model")
        try:
            engine.run({"x": np.ones((1, 4), np.float32)}, ["y"])
        except EngineRunError as error:
            return str(error)
        finally:
            engine.close()
    return ""

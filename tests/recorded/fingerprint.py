"""Fingerprint of a machine: the processor and library versions that the last bits of results depend on."""

from __future__ import annotations

import hashlib
import json
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

_LIBRARIES = ("torch", "numpy", "onnx", "onnxscript", "onnxruntime", "scikit-learn")
_CPU_FIELDS = ("vendor_id", "cpu family", "model", "model name", "stepping", "cache size")
_VECTOR_FLAGS = ("sse4", "ssse3", "fma", "avx", "amx")


def fingerprint() -> dict[str, Any]:
    """Describe this machine: two machines that agree in all of it compute the same bits.

    Returns:
        ``versions`` of libraries, ``processor``, the ``vector_flags`` of the processor, and ``capability``, the vector
        instructions that PyTorch uses.
    """
    processor, flags = _processor()
    return {
        "versions": {name: version(name) for name in _LIBRARIES},
        "processor": processor,
        "vector_flags": sorted(flag for flag in flags if flag.startswith(_VECTOR_FLAGS)),
        "capability": torch.backends.cpu.get_cpu_capability(),
    }


def key_of(found: dict[str, Any]) -> str:
    """Short name of a fingerprint, under which its recording is kept."""
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:12]


def same_libraries(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Compare the versions of libraries, which decide the nodes and names of an exported graph."""
    return bool(one["versions"] == other["versions"])


def same_blocks(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Compare the width of vectors, which decides the channel blocks of ``cpu.onnx``."""
    return ("avx512f" in one["vector_flags"]) == ("avx512f" in other["vector_flags"])


def _processor() -> tuple[dict[str, str], list[str]]:
    """Fields and flags of the first processor, as Linux lists them."""
    listing = Path("/proc/cpuinfo")
    if not listing.is_file():
        return {"model name": platform.processor() or platform.machine()}, []
    first = listing.read_text(encoding="utf-8").split("\n\n")[0]
    fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in first.splitlines())}
    return {name: fields[name] for name in _CPU_FIELDS if name in fields}, fields.get("flags", "").split()

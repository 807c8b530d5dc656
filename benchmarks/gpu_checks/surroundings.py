"""Packages, execution providers, GPU and driver of this machine."""

import contextlib
import importlib.util
import io
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

# Package -> its use here. Without torch nothing can be done.
PACKAGES = {
    "torch": "everything",
    "onnx": "exporting to ONNX",
    "onnxscript": "exporting to ONNX",
    "onnxruntime": "running ONNX files",
    "google.protobuf": "running ONNX files",
    "jsonargparse": "exporting to ONNX, reading artifacts",
    "safetensors": "reading artifacts",
    "rich": "tables with lines",
}
ONNX = ("onnx", "onnxscript", "onnxruntime", "google.protobuf", "jsonargparse")
ARTIFACTS = ("jsonargparse", "safetensors")
_DISTRIBUTIONS = ("torch", "onnx", "onnxscript", "onnxruntime", "onnxruntime-gpu", "tensorrt", "tensorrt-cu13", "numpy")
_SMI = ("--query-gpu=name,driver_version,memory.total", "--format=csv,noheader")
_DRIVER = Path("/proc/driver/nvidia/version")


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """Machine and packages of the figures.

    Args:
        gpu: name, driver and memory; empty without one.
        versions: versions of the packages in use.
        cuda: version that PyTorch was built for; empty for a build without.
        providers: execution providers in the build of ONNX Runtime; empty where it is not installed.
        missing: missing package -> its use.
    """

    gpu: str
    versions: Mapping[str, str]
    cuda: str
    providers: tuple[str, ...]
    missing: Mapping[str, str]

    def lacks(self, packages: tuple[str, ...]) -> str:
        """List those of ``packages`` that are missing, separated by commas."""
        return ", ".join(name for name in packages if name in self.missing)

    @property
    def caption(self) -> str:
        """GPU and versions in one line."""
        versions = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        return f"{self.gpu or 'no GPU'}; {versions}" + (f"; CUDA {self.cuda}" if self.cuda else "")


def look_around() -> Surroundings:
    """Find packages, providers and GPU; none of the packages is needed for it."""
    missing = {name: use for name, use in PACKAGES.items() if not _installed(name)}
    versions = {}
    for name in _DISTRIBUTIONS:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    cuda = gpu = ""
    if "torch" not in missing:
        import torch

        cuda = torch.version.cuda or ""
        gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    return Surroundings(gpu=_smi() or gpu, versions=versions, cuda=cuda, providers=_providers(missing), missing=missing)


def _installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # its parent package is missing
        return False


def _providers(missing: Mapping[str, str]) -> tuple[str, ...]:
    if "onnxruntime" in missing:
        return ()
    from mnserve.engines.runtime import onnxruntime

    # Loads the CUDA libraries that come with PyTorch or in packages of their own.
    with contextlib.redirect_stdout(io.StringIO()):
        getattr(onnxruntime, "preload_dlls", lambda: None)()
    return tuple(onnxruntime.get_available_providers())


def _smi() -> str:
    """Describe the first GPU as nvidia-smi does; empty without that tool."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ""
    try:
        done = subprocess.run([tool, *_SMI], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = done.stdout.strip().splitlines() if done.returncode == 0 else []
    name, driver, memory, *_ = [*(lines[0] if lines else "").split(","), "", "", ""]
    return f"{name.strip()}, driver {driver.strip()}, {memory.strip()}" if name.strip() else ""

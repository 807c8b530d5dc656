"""Description of the machine of a measurement, without which a latency has no meaning."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

from mnserve.engines.cpu import available_cpus
from mnserve.engines.nvidia_driver import gpu_names

_DISTRIBUTIONS = ("mn-runtime", "onnxruntime", "onnxruntime-gpu", "grpcio", "numpy", "protobuf")
_CPUINFO = Path("/proc/cpuinfo")


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Processor, operating system and the versions that affect a latency."""

    cpu: str
    """Model name of the processor."""
    cores: int
    """Logical cores that this process may use, by its affinity and quota."""
    gpus: tuple[str, ...]
    """Models of NVIDIA's GPUs, as its driver names them."""
    system: str
    """Operating system and kernel."""
    versions: dict[str, str]
    """Name -> version of Python and of the installed distributions that take part."""

    def to_json(self) -> dict[str, object]:
        """Returns the fields as plain JSON values."""
        return asdict(self)

    @property
    def caption(self) -> str:
        """Description in one line, for a table or a plot."""
        runtime = next((f", {name} {self.versions[name]}" for name in _DISTRIBUTIONS[1:3] if name in self.versions), "")
        gpus = "".join(f", {name}" for name in self.gpus)
        return f"{self.cpu}, {self.cores} core{'s' * (self.cores != 1)}{gpus}{runtime}"


def describe_machine() -> Machine:
    """Describes the machine and environment of this process."""
    versions = {"python": platform.python_version()}
    for name in _DISTRIBUTIONS:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return Machine(
        cpu=_cpu_name(),
        cores=available_cpus(),
        gpus=gpu_names(),
        system=f"{platform.system()} {platform.release()}",
        versions=versions,
    )


def _cpu_name(cpuinfo: Path = _CPUINFO) -> str:
    """Reads the model name from Linux's cpuinfo; Arm kernels have none there, so the architecture takes its place."""
    try:
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name" and value.strip():
                return " ".join(value.split())
    except OSError:
        pass
    return platform.processor() or platform.machine() or "unknown processor"

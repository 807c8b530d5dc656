"""The machine and the environment of this process, as far as serving depends on them."""

from __future__ import annotations

import math
import os
import platform
from dataclasses import dataclass
from importlib.metadata import distributions
from typing import Final

from mnserve.engines.cpu import available_cpus, cgroup_quota
from mnserve.engines.memory import memory_limit
from mnserve.engines.nvidia_driver import driver_version, gpu_names
from mnserve.engines.providers import installed_builds
from mnserve.engines.runtime import TELEMETRY_VARIABLE
from mnserve.engines.runtime import onnxruntime as ort

_DISTRIBUTIONS: Final = (
    *("mn-runtime", "numpy", "protobuf", "grpcio", "grpcio-health-checking", "grpcio-reflection", "prometheus-client"),
    *("pillow", "jsonargparse", "opentelemetry-sdk"),
)
_FAMILIES: Final = ("onnxruntime", "tensorrt", "nvidia-")
_ON: Final = ("1", "true", "yes", "on")


@dataclass(frozen=True, kw_only=True)
class Cpus:
    """CPUs that size the threads of engines.

    Attributes:
        counted: CPUs that this process may use.
        machine: CPUs of the machine.
        affinity: CPUs in the affinity mask of this process.
        quota: Quota of the control group in CPUs; None without one.
    """

    counted: int
    machine: int
    affinity: int
    quota: float | None

    @property
    def why(self) -> str:
        """Sentence that tells where the number comes from."""
        mask = f"the affinity mask has {self.affinity} of the machine's {self.machine}"
        if self.quota is None:
            return f"{mask}, and no control group has a quota"
        rule = "the smaller counts" if math.ceil(self.quota) != self.affinity else "which is the same"
        return f"{mask}, the control group has a quota of {self.quota:g}; {rule}"


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """Surroundings of a server.

    Attributes:
        versions: Name -> version of the packages that take part.
        python: Version of Python.
        system: Operating system, kernel, architecture and C library.
        build: What this build of ONNX Runtime was made for.
        cpus: CPUs.
        memory_limit: Bytes that the control group allows; None without a limit below the memory of the machine.
        memory: Bytes of the machine.
        gpus: GPUs that NVIDIA's driver shows.
        driver: Version of that driver; empty without one.
        telemetry: Whether ONNX Runtime reports usage, from its version 1.29 on.
        warnings: What is wrong with the packages.
    """

    versions: dict[str, str]
    python: str
    system: str
    build: str
    cpus: Cpus
    memory_limit: int | None
    memory: int
    gpus: tuple[str, ...]
    driver: str
    telemetry: bool
    warnings: tuple[str, ...] = ()


def look_around() -> Surroundings:
    """Looks at the machine and the environment of this process."""
    versions, memory, limit = _versions(), os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), memory_limit()
    return Surroundings(
        versions=versions,
        python=platform.python_version(),
        system=_system(),
        build=_build(),
        cpus=Cpus(
            counted=available_cpus(),
            machine=os.cpu_count() or 1,
            affinity=len(os.sched_getaffinity(0)),
            quota=cgroup_quota(),
        ),
        memory_limit=None if limit is None or limit >= memory else limit,
        memory=memory,
        gpus=gpu_names(),
        driver=driver_version(),
        telemetry=reports_usage(),
        warnings=_warnings(),
    )


def reports_usage() -> bool:
    """Finds if ONNX Runtime reports usage, as it reads its variable."""
    return os.environ.get(TELEMETRY_VARIABLE, "").lower() not in _ON


def _versions() -> dict[str, str]:
    found = {(item.metadata["Name"] or "").lower().replace("_", "-"): item.version for item in distributions()}
    of_families = [name for name in sorted(found) if name.startswith(_FAMILIES)]
    return {name: found[name] for name in (*_DISTRIBUTIONS, *of_families) if name in found}


def _warnings() -> tuple[str, ...]:
    """Finds several builds of ONNX Runtime, which overwrite each other's files."""
    builds = installed_builds()
    if len(builds) < 2:
        return ()
    names = " ".join(builds)
    return (f"{', '.join(builds)} are installed over each other: pip uninstall {names}, then install one again",)


def _system() -> str:
    try:
        name = platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        name = platform.system()
    return f"{name}, kernel {platform.release()}, {platform.machine()}, {' '.join(platform.libc_ver()).strip()}"


def _build() -> str:
    cuda = getattr(ort, "cuda_version", "")
    return f"ONNX Runtime {ort.__version__} for {f'CUDA {cuda}' if cuda else 'CPUs'}"

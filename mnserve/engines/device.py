"""The device that a session computes on and keeps its buffers on."""

from __future__ import annotations

from dataclasses import dataclass

from mnserve.engines.base import EngineOptions
from mnserve.engines.providers import CUDA


@dataclass(frozen=True, kw_only=True)
class Device:
    """Location of buffers.

    Attributes:
        kind: ``cuda``, or ``cpu``, where the same buffers serve without graphs.
        number: Index among the devices of this kind.
    """

    kind: str = "cpu"
    number: int = 0


def cuda_device(options: EngineOptions) -> Device:
    """Returns the GPU that the CUDA provider computes on: its option ``device_id``, by default the first."""
    cuda_options = {option.key: option.value for option in options.provider_options if option.provider == CUDA}
    number = cuda_options.get("device_id", "0")
    return Device(kind="cuda", number=int(number) if number.isdecimal() else 0)

"""The devices of a server, and the one that a session computes on and keeps its buffers on."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from mnserve.engines.base import EngineOptions
from mnserve.engines.nvidia_driver import gpu_lines
from mnserve.engines.nvml import Nvml
from mnserve.engines.providers import CUDA, DEVICE_ID, NUMBERED

VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
"""Variable that hides GPUs from CUDA, which numbers those that it names."""


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
    """Returns the GPU that CUDA computes on: that of its option ``device_id``, that of the process, or the first."""
    given = _given_device(options, CUDA)
    return Device(kind="cuda", number=(options.device or 0) if given is None else given)


def server_devices(options: EngineOptions, nvml: Nvml | None = None) -> tuple[int, ...]:
    """Lists the GPUs that a server computes on, of which each is to have a process of its own.

    Args:
        options: Engine options of the server.
        nvml: Asks the driver; None for that of this machine.

    Returns:
        Numbers as CUDA counts; only that of an option ``device_id``, where that is given. Empty without a provider of
        NVIDIA, or without a GPU.
    """
    names = [name for name in options.providers if name in NUMBERED]
    if not names:
        return ()
    for name in names:
        given = _given_device(options, name)
        if given is not None:
            return (given,)
    count = (Nvml() if nvml is None else nvml).count()
    return tuple(range(_visible(len(gpu_lines()) if count is None else count)))


def _given_device(options: EngineOptions, provider: str) -> int | None:
    given = {option.key: option.value for option in options.provider_options if option.provider == provider}
    number = given.get(DEVICE_ID)
    if number is None:
        return None
    return int(number) if number.isdecimal() else 0


def _visible(count: int) -> int:
    """Counts the GPUs that CUDA shows: the list ends at the first entry that names none."""
    text = os.environ.get(VISIBLE)
    if text is None:
        return count
    shown = 0
    for entry in text.split(","):
        name = entry.strip()
        if not name or name.startswith("-") or (name.isdecimal() and int(name) >= count):
            break
        shown += 1
    return min(shown, count)

"""GPUs as NVIDIA's management library describes them, where its package (``nvidia-ml-py``) and a driver are."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final, TypeVar

_Value = TypeVar("_Value")

_MODULE: Final = "pynvml"


@dataclass(frozen=True, kw_only=True)
class GpuReading:
    """What the driver tells of one GPU at a moment; None for what it does not tell.

    Attributes:
        uuid: Its identity, such as ``GPU-6f2…``.
        utilization: Part of the time in which it computed, from 0 to 1.
        used_bytes: Memory in use, by all processes.
        total_bytes: Memory in all.
        watts: Power that it takes.
    """

    uuid: str
    utilization: float | None
    used_bytes: int | None
    total_bytes: int | None
    watts: float | None


class Nvml:
    """Asks the driver. May be called in any thread; never raises.

    The library is loaded at the first question, and started again where it was not, or where the driver has failed.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._library: Any = None
        self._runs = False

    def count(self) -> int | None:
        """Counts the GPUs; None without the package, or without a driver that answers."""
        with self._lock:
            library = self._started()
            return None if library is None else self._asked(lambda: int(library.nvmlDeviceGetCount()))

    def readings(self) -> list[GpuReading]:
        """Reads every GPU; those that do not even tell their identity are left out."""
        with self._lock:
            library = self._started()
            if library is None:
                return []
            numbers = range(self._asked(lambda: int(library.nvmlDeviceGetCount())) or 0)
            return [reading for number in numbers if (reading := self._reading(library, number)) is not None]

    def _reading(self, library: Any, number: int) -> GpuReading | None:
        handle = self._asked(lambda: library.nvmlDeviceGetHandleByIndex(number))
        uuid = None if handle is None else self._asked(lambda: library.nvmlDeviceGetUUID(handle))
        if uuid is None:
            return None
        memory = self._asked(lambda: library.nvmlDeviceGetMemoryInfo(handle))
        return GpuReading(
            uuid=uuid.decode() if isinstance(uuid, bytes) else str(uuid),
            utilization=self._asked(lambda: library.nvmlDeviceGetUtilizationRates(handle).gpu / 100),
            used_bytes=None if memory is None else int(memory.used),
            total_bytes=None if memory is None else int(memory.total),
            watts=self._asked(lambda: library.nvmlDeviceGetPowerUsage(handle) / 1e3),
        )

    def _started(self) -> Any:
        if self._library is None:
            with contextlib.suppress(ImportError):
                self._library = importlib.import_module(_MODULE)
        if self._library is not None and not self._runs:
            self._runs = self._asked(lambda: self._library.nvmlInit() or True) is True
        return self._library if self._runs else None

    def _asked(self, question: Callable[[], _Value]) -> _Value | None:
        """Returns an answer; None where the driver refuses it: old ones lack functions, and some GPUs lack values."""
        try:
            return question()
        except Exception as error:  # noqa: BLE001 (NVMLError derives from Exception alone)
            if "uninitialized" in str(error).lower():
                self._runs = False
            return None

"""NVIDIA's driver and its GPUs, as the driver describes them in files; no library of it is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_FOLDER: Final = Path("/proc/driver/nvidia")


def gpu_names(folder: Path = _FOLDER) -> tuple[str, ...]:
    """Lists the models of the GPUs; empty without a driver.

    Args:
        folder: Folder in which the driver describes itself.
    """
    return tuple(line.partition(":")[2].strip() for line in gpu_lines(folder))


def driver_version(folder: Path = _FOLDER) -> str:
    """Returns the version of the driver's kernel module with its build; empty without a driver.

    Args:
        folder: Folder in which the driver describes itself.
    """
    return next(iter(version_lines(folder)), "").partition(":")[2].strip()


def version_lines(folder: Path = _FOLDER) -> list[str]:
    """Reads everything that the driver says of its version.

    Args:
        folder: Folder in which the driver describes itself.
    """
    return _lines(folder / "version")


def gpu_lines(folder: Path = _FOLDER) -> list[str]:
    """Reads a line for each GPU, which names its model.

    Args:
        folder: Folder in which the driver describes itself.
    """
    files = sorted(folder.glob("gpus/*/information"))
    return [line for file in files for line in _lines(file) if line.startswith("Model:")]


def _lines(file: Path) -> list[str]:
    try:
        return [line.strip() for line in file.read_text(encoding="utf-8", errors="replace").splitlines()]
    except OSError:
        return []

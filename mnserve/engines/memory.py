"""Memory of this process, and what it may still take: of the machine, or of its control group if that has less."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

from mnserve.engines.cgroup import ancestors, groups, read_file


def resident_bytes(root: Path = Path("/")) -> int:
    """Returns the resident memory of this process in bytes; 0 where the system does not tell.

    Args:
        root: Folder in which ``proc`` is mounted.
    """
    fields = read_file(root / "proc/self/statm").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if len(fields) > 1 and fields[1].isdigit() else 0


def give_back_free_memory() -> None:
    """Gives memory that was freed back to the system, where the C library keeps it for each thread (glibc)."""
    if (trim := heap_trim()) is not None:
        trim()


def heap_trim() -> Callable[[], object] | None:
    """Finds ``malloc_trim``; None where the C library is another one."""
    function = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return None if function is None else lambda: function(0)


def memory_limit(root: Path = Path("/")) -> int | None:
    """Returns the tightest limit of the process's control groups in bytes; None without a limit.

    Args:
        root: Folder in which ``proc`` and ``sys`` are mounted.
    """
    return min((limit for limit, _ in _limits(root)), default=None)


def available_bytes(root: Path = Path("/")) -> int | None:
    """Returns the bytes that this process may still take; None where the system does not tell.

    Memory of files that a control group holds counts as taken, so the number is on the low side.

    Args:
        root: Folder in which ``proc`` and ``sys`` are mounted.
    """
    free = [max(0, limit - used) for limit, used in _limits(root)]
    for line in read_file(root / "proc/meminfo").splitlines():
        words = line.split()
        if line.startswith("MemAvailable:") and len(words) > 1 and words[1].isdigit():
            free.append(int(words[1]) * 1024)
    return min(free, default=None)


def _limits(root: Path) -> list[tuple[int, int]]:
    """Lists limit and use of the control groups that have a limit."""
    by_controllers = groups(root)
    unified = by_controllers.get("", "/")
    legacy = next((path for names, path in by_controllers.items() if "memory" in names.split(",")), "/")
    files = [
        *((folder, "memory.max", "memory.current") for folder in ancestors(root / "sys/fs/cgroup", unified)),
        *(
            (folder, "memory.limit_in_bytes", "memory.usage_in_bytes")
            for folder in ancestors(root / "sys/fs/cgroup/memory", legacy)
        ),
    ]
    pairs = [(read_file(folder / limit), read_file(folder / used)) for folder, limit, used in files]
    return [(int(limit), int(used)) for limit, used in pairs if limit.strip().isdigit() and used.strip().isdigit()]

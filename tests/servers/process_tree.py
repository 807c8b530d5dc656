"""A server as its system sees it: one process, or several that one has started."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path


def family(pid: int) -> list[int]:
    """A process and all that descend from it, parents first; those that have ended are left out."""
    found = [pid]
    for parent in found:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{parent}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
    return [one for one in found if Path(f"/proc/{one}").exists()]


def memory(pid: int, field: str) -> int:
    """Sum of a field of memory, such as ``VmRSS``, over a process and its descendants, in bytes.

    Pages that several of them share count for each.
    """
    total = 0
    for one in family(pid):
        with contextlib.suppress(OSError):
            line = re.search(rf"^{field}:\s+(\d+) kB$", Path(f"/proc/{one}/status").read_text(), re.MULTILINE)
            total += int(line.group(1)) * 1024 if line else 0
    return total


def open_files(pid: int) -> int:
    """Files that a process and its descendants have open."""
    total = 0
    for one in family(pid):
        with contextlib.suppress(OSError):
            total += len(os.listdir(f"/proc/{one}/fd"))
    return total


def send_signal(pid: int, number: int) -> None:
    """Signals a process and its descendants, parents first."""
    for one in family(pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, number)

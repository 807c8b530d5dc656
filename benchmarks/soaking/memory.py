"""Resident memory of a process and those below it, against the requests they have answered."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

_PAGE = os.sysconf("SC_PAGE_SIZE")


def children(pid: int) -> list[int]:
    """Processes that a process has started, and those that they have."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            found += [int(word) for word in (task / "children").read_text().split()]
        except FileNotFoundError:  # it ended meanwhile
            continue
    return [*found, *(below for child in found for below in children(child))]


def resident_bytes(pids: Sequence[int]) -> int:
    """Of all of them; one that ended counts nothing."""
    total = 0
    for pid in pids:
        try:
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
        except FileNotFoundError:
            continue
    return total


def slope(requests: Sequence[int], resident: Sequence[int]) -> float:
    """Bytes a request, by least squares; 0 where there are fewer than two samples."""
    if len(set(requests)) < 2:
        return 0.0
    return float(np.polyfit(np.asarray(requests, float), np.asarray(resident, float), 1)[0])

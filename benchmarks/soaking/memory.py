"""Resident memory of a process and its children, against the number of answered requests."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

_PAGE = os.sysconf("SC_PAGE_SIZE")


def children(pid: int) -> list[int]:
    """List the processes below a process."""
    direct = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            direct += [int(word) for word in (task / "children").read_text().split()]
        except FileNotFoundError:  # the process has ended meanwhile
            continue
    return [*direct, *(below for child in direct for below in children(child))]


def resident_bytes(pids: Sequence[int]) -> int:
    """Sum the resident memory of processes; ended ones count nothing."""
    total = 0
    for pid in pids:
        try:
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
        except FileNotFoundError:
            continue
    return total


def peak_bytes(pids: Sequence[int]) -> int:
    """Sum the largest resident memory that processes have had; ended ones count nothing."""
    total = 0
    for pid in pids:
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except FileNotFoundError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:"))
    return total


def slope(requests: Sequence[int], resident: Sequence[int]) -> float:
    """Fit the bytes a request by least squares; 0 for fewer than two samples."""
    if len(set(requests)) < 2:
        return 0.0
    return float(np.polyfit(np.asarray(requests, float), np.asarray(resident, float), 1)[0])

"""CPUs that this process may use: its affinity mask, limited by the quota of its control group."""

from __future__ import annotations

import math
import os
from pathlib import Path

from mnserve.engines.cgroup import ancestors, groups, read_file


def available_cpus(root: Path = Path("/")) -> int:
    """Counts the CPUs to size thread pools by, at least 1.

    Args:
        root: Folder in which ``proc`` and ``sys`` are mounted.
    """
    count = len(os.sched_getaffinity(0))
    quota = cgroup_quota(root)
    if quota is not None:
        count = min(count, math.ceil(quota))
    return max(1, count)


def cgroup_quota(root: Path = Path("/")) -> float | None:
    """Returns the tightest quota of the process's control groups in CPUs, or None without a quota."""
    quotas = [*_version_2(root), *_version_1(root)]
    return min(quotas) if quotas else None


def _version_2(root: Path) -> list[float]:
    group = groups(root).get("", "/")
    quotas = []
    for folder in ancestors(root / "sys/fs/cgroup", group):
        words = read_file(folder / "cpu.max").split()
        if len(words) == 2 and words[0].isdigit() and words[1].isdigit() and int(words[1]) > 0:
            quotas.append(int(words[0]) / int(words[1]))
    return [quota for quota in quotas if quota > 0]


def _version_1(root: Path) -> list[float]:
    group = next((path for names, path in groups(root).items() if "cpu" in names.split(",")), "/")
    quotas = []
    for controller in ("cpu", "cpu,cpuacct"):
        mount = root / "sys/fs/cgroup" / controller
        if not mount.is_dir():
            continue
        for folder in ancestors(mount, group):
            quota = read_file(folder / "cpu.cfs_quota_us").strip()
            period = read_file(folder / "cpu.cfs_period_us").strip()
            if quota.isdigit() and period.isdigit() and int(period) > 0:  # -1 is no limit
                quotas.append(int(quota) / int(period))
    return [quota for quota in quotas if quota > 0]
